package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func definitionsOf(t *testing.T, vhost, data string) (*State, diag.List) {
	t.Helper()
	s, found, err := ReadDefinitions(strings.NewReader(data), "d.json", vhost)
	if err != nil {
		t.Fatal(err)
	}
	return s, found
}

func TestDefinitionsOfAllVersions(t *testing.T) {
	for _, c := range []struct {
		name, vhost, data, want string // want: version, virtual hosts with their objects
	}{
		{
			"3.7, two virtual hosts", "", `{"rabbit_version":"3.7.13-rc.2","users":[{"name":"u","password_hash":"x","tags":""}],
			"vhosts":[{"name":"b"},{"name":"a"}],"global_parameters":[{"name":"cluster_name","value":"old"}],
			"queues":[{"name":"q","vhost":"a","durable":true,"auto_delete":false,"arguments":{}}],
			"exchanges":[{"name":"x","vhost":"b","type":"x-consistent-hash","durable":true,"auto_delete":false,"internal":true,"arguments":{}}],"bindings":[],"policies":[],
			"parameters":[{"vhost":"b","component":"operator_policy","name":"o","value":{"pattern":".","apply-to":"queues","priority":3,"definition":{"max-length":9007199254740993}}},
			{"vhost":"b","component":"vhost-limits","name":"limits","value":{"max-queues":5}},{"vhost":"b","component":"shovel","name":"s","value":{"src-uri":"amqp://"}}]}`,
			"3.7.13 old: a classic queue/q; b vhost/b parameter/shovel/s operator_policy/o exchange/x",
		},
		{
			"3.10, one virtual host", "", `{"rabbit_version":"3.10.8","parameters":[],"policies":[{"vhost":"shop","name":"p","pattern":".*","apply-to":"all","definition":{"max-length":5},"priority":0}],
			"queues":[{"name":"q1","durable":true,"auto_delete":false,"arguments":{}}],"exchanges":[],"bindings":[]}`,
			"3.10.8 : shop vhost/shop policy/p classic queue/q1",
		},
		{
			"3.10, read as another virtual host", "mine", `{"rabbit_version":"3.10.8","policies":[{"vhost":"shop","name":"p","pattern":"."}],"queues":[{"name":"q1","arguments":{"x-queue-type":"stream"}}]}`,
			"3.10.8 : mine vhost/mine policy/p stream queue/q1",
		},
		{
			"4.3, one virtual host", "", `{"rabbitmq_version":"4.3.6","original_vhost_name":"pv","metadata":{"description":"d","tags":["a"],"default_queue_type":"quorum"},"limits":{"max-queues":1},
			"queues":[{"name":"q","durable":true,"auto_delete":false,"type":"quorum","arguments":{"x-queue-type":"quorum"}}],"exchanges":[{"name":"amq.rabbitmq.log","type":"topic","durable":true,"auto_delete":false,"arguments":{}}],
			"bindings":[{"source":"amq.topic","destination":"q","destination_type":"queue","routing_key":"","arguments":{}}]}`,
			"4.3.6 : pv vhost/pv exchange/amq.rabbitmq.log quorum queue/q binding/amq.topic => queue q",
		},
		{
			"by hand, default queue type", "", `{"vhosts":[{"name":"v","default_queue_type":"quorum"}],"queues":[{"name":"q","vhost":"v"}]}`,
			" : v vhost/v quorum queue/q",
		},
		{"one virtual host by hand", "", `{"queues":[{"name":"q"}]}`, " : / vhost/ classic queue/q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, found := definitionsOf(t, c.vhost, c.data)
			version := ""
			if !s.Version.IsZero() {
				version = s.Version.String()
			}
			got := version + " " + s.ClusterName + ":"
			for i, v := range s.Topology.VirtualHosts {
				if i > 0 {
					got += ";"
				}
				got += " " + v.Name
				for _, o := range v.Objects() {
					k := o.Key()
					switch o := o.(type) {
					case *topology.Exchange:
						if k.Name == "amq.rabbitmq.log" != o.InternalUnknown && strings.HasPrefix(k.Name, "amq.") {
							t.Errorf("%s: internal unknown %v", k, o.InternalUnknown)
						}
						if strings.HasPrefix(k.Name, "amq.") && k.Name != "amq.rabbitmq.log" {
							continue
						}
					case *topology.Queue:
						got += " " + string(o.Type)
					case *topology.VirtualHostSettings:
						if len(o.Attributes()) == 0 && v.Name != "shop" && v.Name != "mine" && v.Name != "/" {
							continue
						}
						k.Name = ""
						if v.Name == "/" {
							k.VirtualHost = ""
						}
					}
					got += " " + k.Address()
				}
			}
			if got != c.want || len(found) != 0 {
				t.Errorf("got  %s\nwant %s\nfindings %v", got, c.want, found)
			}
		})
	}
}

// What is wrong with a file is told with its place, all at once.
func TestDefinitionsFindings(t *testing.T) {
	for _, c := range []struct {
		name, data, want string // code line:column ...
	}{
		{"empty", "", "definitions-syntax 1:1"},
		{"YAML", "queues:\n- name: x", "definitions-syntax 1:1"},
		{"a list", "[]", "definitions-syntax 1:2"},
		{"cut", "{\"queues\": [\n  {\"name\": \"q\"},\n  {\"na", "definitions-syntax 3:6"},
		{"comma", "{\"queues\": [\n  {\"name\": \"ü\"},\n ]}", "definitions-syntax 3:2"},
		{"control character", "{\"queues\": [{\"name\": \"a\nb\"}]}", "definitions-syntax 1:24"},
		{"more", "{\"queues\":[]} x", "definitions-syntax 1:15"},
		{"other JSON", `{"hello": 1}`, "definitions-unknown 1:1"},
		{"HTML", "<html>", "definitions-syntax 1:1"},
		{
			"wrong types", "{\"queues\": {},\n\"exchanges\": [5,\n {\"name\": 7},{\"name\":\"x\",\"type\":\"direct\",\"durable\":\"maybe\"},\n {\"name\":\"y\",\"type\":\"direct\",\"arguments\":[1]}, {\"name\":\"z\"}]}",
			"definitions-type 1:12, definitions-type 2:15, definitions-type 3:2, definitions-type 3:14, definitions-type 4:2, definitions-exchange-type 4:48",
		},
		{
			"no names", `{"queues": [{}, {"name":""}], "bindings": [{"source":"a"}, {"source":"amq.topic","destination":"b","destination_type":"x"}]}`,
			"definitions-name-missing 1:13, definitions-name-missing 1:17, definitions-binding 1:44, definitions-binding 1:60",
		},
		{"twice", "{\"queues\": [{\"name\":\"q\"},\n{\"name\":\"q\"}]}", "definitions-duplicate 2:1"},
		{
			"ends", `{"rabbitmq_version":"4.3.6","bindings": [{"source":"in","destination":"amq.topic","destination_type":"exchange"}]}`,
			"definitions-end-missing 1:42, definitions-routing-key 1:42",
		},
		{"name", `{"queues": [{"name":"a\u001b[31m"}]}`, "definitions-control-character 1:13"},
		{"huge number", `{"queues": [{"name":"q","arguments":{"x":1e999}}]}`, "definitions-type 1:13"},
		{"deep", `{"queues": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "definitions-syntax 1:10011"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := definitionsOf(t, "", c.data)
			var got []string
			for _, d := range found {
				got = append(got, d.Code+" "+strings.TrimPrefix(d.Position.String(), "d.json:"))
				if strings.ContainsAny(d.Summary+d.Detail, "\x1b") || strings.Contains(d.Summary, "broker.") || d.Detail == "" {
					t.Errorf("text %q, %q", d.Summary, d.Detail)
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got  %s\nwant %s\n%v", s, c.want, found)
			}
		})
	}
}

func TestDefinitionsBeginWithAMark(t *testing.T) {
	s, found := definitionsOf(t, "", "\xef\xbb\xbf{\"queues\":[{\"name\":\"q\"}]}")
	if len(found) != 0 || len(s.Topology.VirtualHosts[0].Queues) != 1 {
		t.Errorf("%v", found)
	}
}

// Positions are those of the objects.
func TestDefinitionsPlaces(t *testing.T) {
	s, _ := definitionsOf(t, "v", "{\n \"queues\": [\n  {\"name\": \"ü\"},  {\"name\": \"q\",\n   \"durable\": true}\n ]}")
	for name, want := range map[string]string{"ü": "d.json:3:3", "q": "d.json:3:19"} {
		if got := s.Topology.VirtualHost("v").Queue(name).Position.String(); got != want {
			t.Errorf("%s at %s, want %s", name, got, want)
		}
	}
}

func TestDefinitionsOfAnotherVirtualHost(t *testing.T) {
	s, _ := definitionsOf(t, "gone", `{"vhosts":[{"name":"v"}]}`)
	if len(s.Missing) != 1 || s.Missing[0] != "gone" || s.Topology.VirtualHost("v") == nil {
		t.Errorf("missing %v", s.Missing)
	}
}

func FuzzDefinitions(f *testing.F) {
	files, _ := filepath.Glob("../../testdata/definitions/*.json")
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil && len(data) < 1<<16 {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"rabbitmq_version":"4.3.6","vhosts":[{"name":"v","tags":"a,b","limits":[],"metadata":{"tags":[]}}],"queues":[{"name":"q","vhost":"v","durable":true,"arguments":{"x":[1,{"a":1.5}]}}],
		"exchanges":[{"name":"x","vhost":"v","type":"topic","internal":false}],"bindings":[{"source":"x","vhost":"v","destination":"q","destination_type":"queue","routing_key":null}],
		"policies":[{"vhost":"v","name":"p","priority":1e9,"definition":{}}],"parameters":[{"vhost":"v","component":"operator_policy","name":"o","value":{"definition":{}}}],
		"permissions":[{"user":"u","vhost":"v"}],"topic_permissions":[{"user":"u","vhost":"v"}],"global_parameters":[{"name":"cluster_name","value":"c"}]}`))
	f.Add([]byte(`{"queues":[{"name":"q"}],"limits":{"max-queues":1},"metadata":null,"parameters":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, found, err := ReadDefinitions(strings.NewReader(string(data)), "f", "")
		if err != nil || s == nil {
			t.Fatalf("%v %v", s, err)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, d := range found {
			if d.Code == "" || d.Position.File != "f" || d.Position.Line > lines {
				t.Errorf("%+v", d)
			}
		}
		for _, v := range s.Topology.VirtualHosts {
			for _, o := range v.Objects() {
				_, _, _ = o.Key().String(), o.Attributes(), o.Place()
			}
		}
	})
}
