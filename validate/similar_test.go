package validate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestManyWrongNames: suggestions cost the same however often a name is wrong, and
// however many names are wrong they stay bounded.
func TestManyWrongNames(t *testing.T) {
	s := newState(&topology.VirtualHost{Name: "shop", Queues: []*topology.Queue{
		queueOf(topology.Classic, "orders.dead", nil), queueOf(topology.Classic, "refunds.dead", nil),
	}}, nil, []catalog.Version{catalog.Newest}, nil)
	for range 3 {
		if near := s.nearestQueue("order.dead"); near != "orders.dead" {
			t.Errorf("suggests %q", near)
		}
	}
	once := s.similar.spent
	if once == 0 || once > 2*len("order.dead")*len("order.dead") {
		t.Errorf("%d pairs of letters were compared for one name", once)
	}
	long := strings.Repeat("x", 250)
	for i := range 5000 {
		s.nearestQueue(fmt.Sprintf("%s%d", long, i))
	}
	if s.similar.spent > maxSimilar {
		t.Errorf("%d pairs of letters were compared", s.similar.spent)
	}
}

// TestWrongNameOfThousands: each of 2,000 queues names a queue that is not there.
func TestWrongNameOfThousands(t *testing.T) {
	var objects []any
	for i := range 2000 {
		objects = append(objects, queueOf(topology.Classic, fmt.Sprintf("queue.%d", i), topology.Arguments{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "queue.x",
		}))
	}
	found := Check(Input{Topology: host(objects...), Versions: catalog.Releases})
	n := 0
	for _, d := range found {
		if d.Code == "dead-letter-queue-missing" {
			n++
			if !strings.Contains(d.Detail, "Did you mean") {
				t.Fatalf("no suggestion: %s", d.Detail)
			}
		}
	}
	if n != 2000 {
		t.Errorf("%d findings", n)
	}
}
