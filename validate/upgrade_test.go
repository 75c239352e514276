package validate

import (
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestUpgradeStarts: rules on upgrades look only at starts below the target's series,
// and name those for which something holds.
func TestUpgradeStarts(t *testing.T) {
	host := hostOf([]topology.Object{dead(), q(quorum, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})})
	patch := func(major, minor, patch int) catalog.Version {
		return catalog.Version{Major: major, Minor: minor, Patch: patch}
	}
	for _, c := range []struct {
		name string
		from []catalog.Version
		to   catalog.Version
		want string
	}{
		{"none", nil, catalog.V(4, 3), ""},
		{"from an old one", []catalog.Version{patch(3, 10, 8)}, catalog.V(4, 3), "21 deliveries"},
		{"a patch", []catalog.Version{patch(4, 3, 1)}, patch(4, 3, 6), ""},
		{"the same", []catalog.Version{catalog.V(4, 0)}, catalog.V(4, 0), ""},
		{"a way back", []catalog.Version{catalog.V(4, 3)}, catalog.V(3, 10), ""},
		{"not yet 4.0", []catalog.Version{catalog.V(3, 10)}, catalog.V(3, 13), ""},
		{"some", []catalog.Version{catalog.V(4, 1), catalog.V(3, 13), catalog.V(3, 12)}, catalog.V(4, 3), "coming from RabbitMQ 3.12 to 3.13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(of(Check(Input{Topology: host, Versions: []catalog.Version{c.to}, From: c.from}), upgradeDefaultDeliveryLimit.Code), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestUpgradeIgnored: a comment that accepts a finding on an upgrade is of use only in
// front of one, and is no unused comment elsewhere.
func TestUpgradeIgnored(t *testing.T) {
	const text = `version: 1
vhost: t
requires: {rabbitmq: ">=3.10"}
queues:
  jobs: {type: quorum, dead_letter: dead, settings_by: arguments}  # rabbitctl:ignore upgrade-default-delivery-limit 20 is right
  dead: {type: classic, role: dead-letter, owner: team}            # rabbitctl:ignore drop-is-loss not reported here
`
	for _, name := range []string{"plain.yaml", "upgrade-comment.yaml"} {
		list, _ := checkSpec(t, name, text)
		if got := of(list, codeUnusedIgnore); len(got) != 1 || !strings.Contains(got[0], "drop-is-loss") {
			t.Errorf("%s: %q, want the comment on drop-is-loss alone", name, got)
		}
		if got := of(list, upgradeDefaultDeliveryLimit.Code); len(got) > 0 {
			t.Errorf("%s: %q was to be ignored", name, got)
		}
	}
}
