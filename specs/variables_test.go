package specs

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func TestVariables(t *testing.T) {
	for _, c := range []struct{ name, text, want, findings string }{
		{"default", "variables: {env: {default: dev}}\nqueues: {\"${env}.a\": {owner: \"team-${env}\"}}", "dev.a  owner=team-dev", ""},
		{"typed", "variables: {n: {default: 5}}\nqueues: {a: {max_length: ${n}}}", "", "3:1 yaml-syntax"},
		{"typed in quotes", "variables: {n: {default: 5}}\nqueues: {a: {max_length: \"${n}\"}}", `a  {"max-length": 5}`, ""},
		{"number for a text", "variables: {n: {default: 5}}\nqueues: {a: {owner: \"${n}\"}}", "a  owner=5", ""},
		{"part of a number", "variables: {n: {default: 5}}\nqueues: {a: {max_length: \"${n}0\"}}", "a ", "3:26 wrong-type"},
		{"list", "variables: {d: {default: [1s, 2s]}}\nqueues:\n  a:\n    retry: {max_attempts: 1, delays: \"${d}\"}", "a  retry=1[1s 2s]", ""},
		{"literal", "queues: {a: {owner: \"$${env} $x $\"}}", "a  owner=${env} $x $", ""},
		{"secret", "queues: {a: {owner: \"${env:NAME}-${env:OTHER_1}\"}}", "a  owner=${env:NAME}-${env:OTHER_1}", ""},
		{"bad secret", "queues: {a: {owner: \"${env:a b}\"}}", "a ", "2:21 variable-syntax"},
		{"open", "queues: {a: {owner: \"${env\"}}", "a ", "2:21 variable-syntax"},
		{"no name", "queues: {a: {owner: \"${}\"}}", "a ", "2:21 variable-syntax"},
		{"undefined", "queues: {a: {owner: \"${env}\"}, \"${env}\": {}}", "a ", "2:21 undefined-variable; 2:32 undefined-variable"},
		{"no map", "variables: {env: dev}\nqueues: {a: {owner: \"x${env}\"}, b: {owner: \"${env}\"}}", "a ; b ", "2:18 wrong-type"},
		{"without default", "variables: {env: {}}\nqueues: {a: {owner: \"x${env}\"}}", "a ", "3:21 undefined-variable"},
		{"list in a text", "variables: {env: {default: [a]}}\nqueues: {a: {owner: \"x${env}\"}}", "a ", "3:21 wrong-type"},
		{"list as a key", "variables: {env: {default: [a]}}\nqueues: {\"${env}\": {owner: x}}", "", "3:10 wrong-type"},
		{"of the document", "variables: {env: {default: dev}}\nqueues: {a: {}}\n---\nversion: 1\nqueues: {b: {owner: \"${env}\"}}", "a ; b ", "6:21 undefined-variable"},
		{"not in each other", "variables: {a: {default: \"${b}\"}, b: {default: x}}\nqueues: {a: {owner: \"${a}\"}}", "a  owner=${b}", ""},
		{"duplicates after replacing", "variables: {env: {default: a}}\nqueues: {a: {}, \"${env}\": {}}", "a ", "3:17 duplicate-key"},
		{"bad name", "variables: {\"a b\": {default: x}, 1: {default: x}}", "", "2:13 variable-syntax; 2:34 variable-syntax"},
		{"no map", "variables: {a: dev}", "", "2:16 wrong-type"},
		{"unknown key", "variables: {a: {defualt: dev}}", "", "2:17 unknown-key"},
		{"in a secret's neighbourhood", "variables: {v: {default: x}}\nparameters: {shovel: {s: {uri: \"amqp://${v}:${env:PW}@h\"}}}", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, list := load("version: 1\n" + c.text + "\n")
			if got := queuesText(spec); got != c.want || strings.Join(lines(list), "; ") != c.findings {
				t.Errorf("got  %q\nwant %q\n%s", got, c.want, texts(list))
			}
		})
	}
}

// TestVariableOrder: what is set goes before files, these before the
// environment, and that before the default.
func TestVariableOrder(t *testing.T) {
	in := func() Input {
		in := loadFiles("version: 1\nvariables: {v: {default: default}}\nqueues: {a: {owner: \"${v}\"}}\n")
		in.Environment = map[string]string{"v": "environment"}
		in.Values = []File{{"v1.yaml", []byte("v: file\n")}, {"v2.yaml", []byte("v: second file\n")}}
		in.Set = map[string]string{"v": "set"}
		return in
	}
	for want, change := range map[string]func(in *Input){
		"set":         func(*Input) {},
		"file":        func(in *Input) { in.Set = nil },
		"second file": func(in *Input) { in.Set, in.Values = nil, in.Values[1:] },
		"environment": func(in *Input) { in.Set, in.Values = nil, nil },
		"default":     func(in *Input) { in.Set, in.Values, in.Environment = nil, nil, nil },
	} {
		given := in()
		change(&given)
		spec, list := Load(given)
		if got := queuesText(spec); got != "a  owner="+want || len(list) > 0 {
			t.Errorf("got %q, want %q\n%s", got, want, texts(list))
		}
	}
}

// TestSetTypes: texts from the command line and the environment are YAML scalars.
func TestSetTypes(t *testing.T) {
	for text, want := range map[string]any{
		"5": int64(5), "true": true, "1.5": 1.5, "x": "x", "": "", "\"5\"": "5", "'a b'": "a b", "{a: b}": "{a: b}", "a: b": "a: b", "\"": "\"", "~": "~", "${v}": "${v}",
		"\"\x01": "\"\x01", "99999999999999999999": 1e20, ".nan": ".nan", "2024-01-02": "2024-01-02",
	} {
		in := loadFiles("version: 1\nparameters: {c: {p: \"${v}\"}}\n")
		in.Set = map[string]string{"v": text}
		spec, list := Load(in)
		if len(list) > 0 || len(spec.VirtualHosts[0].Parameters) != 1 {
			t.Errorf("%q: %s", text, texts(list))
			continue
		}
		if got := spec.VirtualHosts[0].Parameters[0].Value; !topology.Equal(got, want) {
			t.Errorf("%q is %#v, want %#v", text, got, want)
		}
	}
}

func TestUnknownSet(t *testing.T) {
	in := loadFiles("version: 1\nvariables: {environment: {default: dev}}\n")
	in.Set = map[string]string{"enviroment": "prod"}
	in.Environment = map[string]string{"something": "else"}
	_, list := Load(in)
	if got := texts(list); !slices.Equal(lines(list), []string{"0:0 unknown-variable"}) || !strings.Contains(got, `Did you mean "environment"?`) {
		t.Errorf("got %s", got)
	}
}

func TestValuesFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"- a\n":         "v.yaml:1:1 wrong-type",
		"a: {\n":        "v.yaml:2:1 yaml-syntax",
		"a: 1\n---\nb:": "v.yaml:3:1 values-file",
		"a: 1\na: 2\n":  "v.yaml:2:1 duplicate-key v.yaml:1:1",
		"\x00":          "v.yaml:1:1 yaml-not-text",
	} {
		in := loadFiles("version: 1\n")
		in.Values = []File{{"v.yaml", []byte(text)}}
		if got := strings.Join(places(t, in), "; "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	in := loadFiles("version: 1\nqueues:\n  a: \"${q}\"\n")
	in.Values = []File{{"v.yaml", []byte("q:\n  durabel: false\n")}}
	spec, list := Load(in)
	if got := strings.Join(places(t, in), "; "); got != "v.yaml:2:3 unknown-key" || spec.Files["v.yaml"] == nil {
		t.Errorf("got %s", texts(list))
	}
}
