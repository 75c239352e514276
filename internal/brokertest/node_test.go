package brokertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestNodeSurvivesRestartAndKill(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			node := StartNode(t, release)
			if !node.AtLeast(release) {
				t.Errorf("got %s", node.Version)
			}
			vhost := node.VirtualHost(t)
			node.DeclareQueue(t, vhost, "q", amqp.Table{"x-queue-type": "quorum"})
			node.Publish(t, vhost, "", "q", 1)
			node.Stop()
			if _, err := node.depth(vhost, "q"); err == nil {
				t.Error("a stopped node answers")
			}
			node.Restart()
			node.Kill()
			node.Restart()
			node.AwaitDepth(t, vhost, "q", 1, 30*time.Second)
		})
	}
}

func TestPausedNodeAnswersNothing(t *testing.T) {
	t.Parallel()
	node := StartNode(t, "4.3", "--config", "heartbeat = 7", "--plugins", "rabbitmq_shovel,rabbitmq_shovel_management")
	p := Proxy(t, node.AMQPAddress())
	if got := node.Ctl("eval", "application:get_env(rabbit, heartbeat)."); got != "{ok,7}\n" {
		t.Errorf("heartbeat is %q", got)
	}
	if status, _ := node.Do(t, "GET", Path("shovels"), nil); status != 200 {
		t.Errorf("shovels: %d", status)
	}
	node.Pause()
	connection := dial(t, p)
	connection.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if answer, err := say(connection, "AMQP\x00\x00\x09\x01"); !errors.Is(err, errTimeout(err)) {
		t.Errorf("a paused node answers %q %v", answer, err)
	}
	node.Resume()
	if node.HasQueue(t, "/", "missing") {
		t.Error("a resumed node has a queue that nobody declared")
	}
}

func TestClusterKeepsQuorumQueueWithoutOneNode(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, "4.3")
	first, second := cluster.Nodes[0], cluster.Nodes[1]
	vhost := first.VirtualHost(t)
	first.DeclareQueue(t, vhost, "q", amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": int32(3)})
	first.Publish(t, vhost, "", "q", 10)
	first.Kill()
	second.AwaitDepth(t, vhost, "q", 10, 30*time.Second)
	first.Restart()
	first.AwaitDepth(t, vhost, "q", 10, 30*time.Second)
}

// A test that is killed, or times out, runs no cleanup.
func TestNodeEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	urls(t)
	starter := exec.Command("sleep", "300")
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	output, err := devBroker("start", "4.3", "--with", strconv.Itoa(starter.Process.Pid))
	starter.Process.Kill()
	starter.Wait()
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	fmt.Sscanf(output, "RABBITCTL_BROKER_DIR=%s", &dir)
	Eventually(t, 20*time.Second, func() error {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there", dir)
		}
		return nil
	})
}
