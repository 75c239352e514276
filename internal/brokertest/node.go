package brokertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Node is a broker that belongs to one test, which may restart, freeze and kill it.
type Node struct {
	Broker
	Dir string // of its data: see `dev/broker help`
	t   testing.TB
}

// StartNode starts a broker of a release ("3.10", "4.0", "4.3") by dev/broker, with further flags of `dev/broker start`
// (--defaults, --config LINE, --definitions FILE, --plugins LIST). It is gone when the test ends, even if the test is killed.
func StartNode(t *testing.T, release string, flags ...string) *Node {
	t.Helper()
	urls(t) // the tests that start nodes run where the others do
	variables := start(t, append([]string{"start", release}, flags...))
	node := newNode(t, variables["RABBITCTL_BROKER_DIR"], variables["RABBITCTL_BROKER_URL"])
	t.Cleanup(func() { dispose(t, node.Dir) })
	return node
}

// Cluster is a cluster that belongs to one test.
type Cluster struct {
	Nodes []*Node
}

// StartCluster starts three nodes of a release as one cluster. Each can be killed and restarted for itself.
func StartCluster(t *testing.T, release string, flags ...string) *Cluster {
	t.Helper()
	urls(t)
	variables := start(t, append([]string{"cluster", release}, flags...))
	dir := variables["RABBITCTL_BROKER_DIR"]
	t.Cleanup(func() { dispose(t, dir) })
	cluster := &Cluster{}
	for i, u := range strings.Fields(variables["RABBITCTL_BROKER_URLS"]) {
		cluster.Nodes = append(cluster.Nodes, newNode(t, filepath.Join(dir, strconv.Itoa(i+1)), u))
	}
	return cluster
}

// start runs dev/broker and returns the variables that it prints.
func start(t *testing.T, arguments []string) map[string]string {
	t.Helper()
	output, err := devBroker(append(arguments, "--with", strconv.Itoa(os.Getpid()))...)
	if err != nil {
		t.Fatalf("dev/broker %s: %v", strings.Join(arguments, " "), err)
	}
	variables := map[string]string{}
	for line := range strings.Lines(output) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		variables[name] = strings.Trim(value, "'")
	}
	return variables
}

func newNode(t *testing.T, dir, managementURL string) *Node {
	t.Helper()
	b, err := open(managementURL, 30*time.Second)
	if err != nil {
		t.Fatalf("new node: %v", err)
	}
	b.throwaway = true
	return &Node{Broker: *b, Dir: dir, t: t}
}

func dispose(t *testing.T, dir string) {
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(dir, "log", "node.log"))
		more, _ := filepath.Glob(filepath.Join(dir, "*", "log", "node.log"))
		for _, log := range append(logs, more...) {
			if content, err := os.ReadFile(log); err == nil {
				t.Logf("the end of %s:\n%s", log, content[max(0, len(content)-4000):])
			}
		}
	}
	if _, err := devBroker("stop", dir); err != nil {
		t.Errorf("dev/broker stop %s: %v", dir, err)
	}
}

// Stop shuts the node down in order. Its data stays.
func (n *Node) Stop() { n.t.Helper(); n.control("halt") }

// Kill ends the node with kill -9. Its data stays.
func (n *Node) Kill() { n.t.Helper(); n.control("kill") }

// Restart starts the node again on the same ports and data, after shutting it down if it runs.
func (n *Node) Restart() { n.t.Helper(); n.control("restart") }

// Pause freezes the node: connections stay open and nothing is answered. The end of the test ends that too.
func (n *Node) Pause() { n.t.Helper(); n.control("pause") }

// Resume thaws a paused node.
func (n *Node) Resume() { n.t.Helper(); n.control("resume") }

// Ctl runs rabbitmqctl on the node and returns what it prints.
func (n *Node) Ctl(arguments ...string) string {
	n.t.Helper()
	output, err := devBroker(append([]string{"ctl", n.Dir}, arguments...)...)
	if err != nil {
		n.t.Fatalf("rabbitmqctl %s: %v", strings.Join(arguments, " "), err)
	}
	return output
}

func (n *Node) control(command string) {
	n.t.Helper()
	if _, err := devBroker(command, n.Dir); err != nil {
		n.t.Fatalf("dev/broker %s: %v", command, err)
	}
}

// devBroker runs the script of this module.
func devBroker(arguments ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	var output, messages bytes.Buffer
	command := exec.Command(filepath.Join(root, "dev", "broker"), arguments...)
	command.Stdout, command.Stderr = &output, &messages
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(messages.String()))
	}
	return output.String(), nil
}

// moduleRoot finds the module from the folder of the package under test, in which go test runs it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("found no go.mod above the current folder")
		}
		dir = parent
	}
	return "", err
}
