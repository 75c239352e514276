package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/broker"
)

// setting is one connection setting: how it is called as a flag, an environment
// variable and in a profile, and what it is when nobody says.
type setting struct {
	flag   string
	env    string
	value  string
	usage  string
	secret bool
}

// connectionSettings is the one list of them. A profile uses the flag's name
// with "_" for "-".
var connectionSettings = []setting{
	{flag: "url", env: "RABBITCTL_URL", value: "http://localhost:15672", usage: "`URL` of the management API; a path prefix is allowed"},
	{flag: "amqp-url", env: "RABBITCTL_AMQP_URL", usage: "`URL` of the broker for AMQP (default: the host of --url)"},
	{flag: "username", env: "RABBITCTL_USERNAME", value: "guest", usage: "`NAME` to log in with"},
	{flag: "password", env: "RABBITCTL_PASSWORD", value: "guest", usage: "`PASSWORD`; visible to other users of the machine, better is --password-stdin or the environment", secret: true},
	{flag: "token", env: "RABBITCTL_TOKEN", usage: "OAuth 2 bearer `TOKEN` instead of name and password", secret: true},
	{flag: "ca-file", env: "RABBITCTL_CA_FILE", usage: "`FILE` with the certificate authorities to trust, PEM"},
	{flag: "cert-file", env: "RABBITCTL_CERT_FILE", usage: "`FILE` with the client certificate, PEM"},
	{flag: "key-file", env: "RABBITCTL_KEY_FILE", usage: "`FILE` with the client certificate's key, PEM"},
	{flag: "timeout", env: "RABBITCTL_TIMEOUT", value: "60s", usage: "`DURATION` that one request may take, and that apply tries again after faults"},
}

// connectionFlags are the flags of every command that talks to a broker. Values
// are resolved by resolveConnection and never by urfave/cli, whose precedence
// hides where a value came from.
func connectionFlags() []cli.Flag {
	flags := []cli.Flag{}
	for _, s := range connectionSettings {
		text := s.value
		if s.secret {
			text = ""
		}
		flags = append(flags, &cli.StringFlag{
			Name: s.flag, Usage: s.usage + " [$" + s.env + "]", DefaultText: text, Category: "CONNECTION",
		})
	}
	return append(flags,
		&cli.BoolFlag{Name: "password-stdin", Usage: "read the password from standard input", Category: "CONNECTION"},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of a profile in ~/.config/rabbitctl/config.yaml [$RABBITCTL_PROFILE]", Category: "CONNECTION"},
		&cli.BoolFlag{Name: "verbose", Usage: "say where each connection setting comes from", Category: "CONNECTION"},
	)
}

// origin ranks where a value came from: a flag beats the environment, that a
// profile, that the default.
type origin int

const (
	fromDefault origin = iota
	fromProfile
	fromEnvironment
	fromFlag
)

// connection is a resolved set of connection settings.
type connection struct {
	values  map[string]string
	origins map[string]origin
	source  map[string]string // the origin in words
	timeout time.Duration
}

// explicit reports whether somebody gave the setting.
func (c *connection) explicit(name string) bool { return c.origins[name] != fromDefault }

// resolveConnection gathers the settings: flag, environment, profile, default.
func resolveConnection(c *cli.Context, s Streams) (*connection, error) {
	profile, profileName, err := loadProfile(c.String("profile"), s)
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	conn := &connection{values: map[string]string{}, origins: map[string]origin{}, source: map[string]string{}}
	for _, set := range connectionSettings {
		set.resolve(conn, c, s, profile, profileName)
	}
	if c.Bool("password-stdin") {
		if c.IsSet("password") {
			return nil, usagef("--password and --password-stdin exclude each other")
		}
		line, err := bufio.NewReader(io.LimitReader(s.In, 64<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the password from standard input: %w", err)
		}
		conn.set("password", strings.TrimRight(line, "\r\n"), fromFlag, "standard input")
	}
	if c.IsSet("password") {
		fmt.Fprintln(s.Err, "warning: a password in a flag can be read by every user of this machine; use --password-stdin or RABBITCTL_PASSWORD")
	}
	if err := conn.splitUserinfo(c, s); err != nil {
		return nil, err
	}
	if c.Bool("verbose") {
		conn.show(s.Err)
	}
	return conn, nil
}

func (set setting) resolve(conn *connection, c *cli.Context, s Streams, profile map[string]string, profileName string) {
	key := strings.ReplaceAll(set.flag, "-", "_")
	if c.IsSet(set.flag) {
		conn.set(set.flag, c.String(set.flag), fromFlag, "flag --"+set.flag)
	} else if v := s.getenv(set.env); v != "" {
		conn.set(set.flag, v, fromEnvironment, "environment "+set.env)
	} else if v, ok := profile[key]; ok {
		conn.set(set.flag, v, fromProfile, "profile "+profileName)
	} else {
		conn.set(set.flag, set.value, fromDefault, "default")
	}
}

func (c *connection) set(name, value string, o origin, source string) {
	c.values[name], c.origins[name], c.source[name] = value, o, source
}

// splitUserinfo moves name and password out of --url: they count as given where
// the URL was given.
func (c *connection) splitUserinfo(ctx *cli.Context, s Streams) error {
	raw := c.values["url"]
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The text may hold a password, so that it is not repeated.
		return usagef("the URL of the management API (%s) is not of the form http(s)://HOST[:PORT][/PREFIX]", c.source["url"])
	}
	if u.User != nil {
		from, source := c.origins["url"], c.source["url"]
		if from >= c.origins["username"] {
			c.set("username", u.User.Username(), from, "URL of "+source)
		}
		if password, ok := u.User.Password(); ok {
			if from >= c.origins["password"] {
				c.set("password", password, from, "URL of "+source)
			}
			if ctx.IsSet("url") {
				fmt.Fprintln(s.Err, "warning: a password in --url can be read by every user of this machine; use --password-stdin or RABBITCTL_PASSWORD")
			}
		}
		u.User = nil
	}
	c.values["url"] = u.String()
	return nil
}

// show prints every value with its origin, secrets masked.
func (c *connection) show(w io.Writer) {
	for _, set := range connectionSettings {
		value := c.values[set.flag]
		switch {
		case value == "":
			value = "(none)"
		case set.secret:
			value = "***"
		case set.flag == "amqp-url":
			value = maskURL(value)
		}
		fmt.Fprintf(w, "%-10s %s (%s)\n", set.flag, safeLine(value), safeLine(c.source[set.flag]))
	}
}

// maskURL hides a password in a URL; what does not parse is hidden as a whole.
func maskURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" { // without a scheme the password may be anywhere in it
		return "***"
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), "***")
	}
	return strings.ReplaceAll(u.String(), "%2A%2A%2A", "***")
}

// options are the settings as internal/broker wants them.
func (c *connection) options() (broker.Options, error) {
	timeout, err := time.ParseDuration(c.values["timeout"])
	if err != nil || timeout <= 0 {
		return broker.Options{}, usagef("the timeout %q (%s) is no duration such as 30s", c.values["timeout"], c.source["timeout"])
	}
	c.timeout = timeout
	o := broker.Options{
		URL: c.values["url"], AMQPURL: c.values["amqp-url"],
		Username: c.values["username"], Password: c.values["password"], Token: c.values["token"],
		CAFile: c.values["ca-file"], CertFile: c.values["cert-file"], KeyFile: c.values["key-file"],
		Timeout: timeout, UserAgent: "rabbitctl/" + strings.ReplaceAll(version(), " ", "-"),
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return broker.Options{}, usagef("--cert-file and --key-file belong together")
	}
	return o, nil
}

// amqpOnly reports whether only an AMQP URL was given, so that there is no
// management API to ask.
func (c *connection) amqpOnly() bool { return c.explicit("amqp-url") && !c.explicit("url") }

// connect resolves the settings and makes a client; nothing is sent yet. With
// withoutAPI the management API is left alone where that says so.
func connect(c *cli.Context, s Streams, withoutAPI func(*connection) bool) (*broker.Client, *connection, error) {
	conn, err := resolveConnection(c, s)
	if err != nil {
		return nil, nil, err
	}
	o, err := conn.options()
	if err != nil {
		return nil, nil, err
	}
	if withoutAPI != nil && withoutAPI(conn) {
		o.URL = ""
	}
	client, err := broker.New(o)
	if err != nil {
		return nil, nil, fail(ExitUsage, err)
	}
	return client, conn, nil
}

// loadProfile reads one profile of the configuration file:
//
//	default: staging
//	profiles:
//	  staging: {url: "https://mq.example.org", username: ci, password: "${env:MQ_PASSWORD}"}
func loadProfile(name string, s Streams) (values map[string]string, profile string, err error) {
	if name == "" {
		name = s.getenv("RABBITCTL_PROFILE")
	}
	path := configPath(s)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		if name != "" {
			return nil, "", fmt.Errorf("there is no profile %q: the file %s does not exist", name, path)
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read profiles: %w", err)
	}
	var file struct {
		Default  string                       `yaml:"default"`
		Profiles map[string]map[string]string `yaml:"profiles"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(data)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read profiles in %s: %s", path, valueInError.ReplaceAllString(err.Error(), "${1}a value"))
	}
	if name == "" {
		name = file.Default
	}
	if name == "" {
		return nil, "", nil
	}
	values, ok := file.Profiles[name]
	if !ok {
		return nil, "", fmt.Errorf("there is no profile %q in %s", name, path)
	}
	if err := checkProfile(values, s); err != nil {
		return nil, "", fmt.Errorf("profile %q in %s: %w", name, path, err)
	}
	return values, name, nil
}

// valueInError finds what yaml.v3 repeats of a value, which may be a password.
var valueInError = regexp.MustCompile("(cannot unmarshal \\S+ )`[^\n]*?`")

// checkProfile refuses unknown keys and resolves ${env:NAME} in values.
func checkProfile(values map[string]string, s Streams) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		known := slices.ContainsFunc(connectionSettings, func(set setting) bool {
			return strings.ReplaceAll(set.flag, "-", "_") == key
		})
		if !known {
			return fmt.Errorf("unknown key %q", key)
		}
		if reference, ok := strings.CutPrefix(value, "${env:"); ok && strings.HasSuffix(reference, "}") {
			variable := strings.TrimSuffix(reference, "}")
			if s.getenv(variable) == "" {
				return fmt.Errorf("%s: the environment variable %s is not set", key, variable)
			}
			values[key] = s.getenv(variable)
		}
	}
	return nil
}

// configPath is where profiles stand.
func configPath(s Streams) string {
	if path := s.getenv("RABBITCTL_CONFIG"); path != "" {
		return path
	}
	dir := s.getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := s.getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "rabbitctl", "config.yaml")
}
