package catalog

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Settings is the table, sorted by name. Its rows stand in settings_*.go by what
// they are about.
var Settings = table(deadLetterSettings, lengthSettings, lifetimeSettings, deliverySettings,
	placementSettings, mirroringSettings, classicSettings, streamSettings, pluginSettings)

// table joins the parts and sorts them by name.
func table(parts ...[]Setting) []Setting {
	all := slices.Concat(parts...)
	slices.SortFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Short names for the rows.
const (
	classic = topology.Classic
	quorum  = topology.Quorum
	stream  = topology.Stream
)

// Spans of versions that several rows share.
var (
	always   = Range{}
	since312 = Range{Since: V(3, 12)}
	since313 = Range{Since: V(3, 13)}
	since40  = Range{Since: V(4, 0)}
	since43  = Range{Since: V(4, 3)}
	// Patch releases that changed something.
	since3127 = Range{Since: Version{3, 12, 7}}
	since431  = Range{Since: Version{4, 3, 1}}
	until3127 = Range{Until: Version{3, 12, 7}}
	until432  = Range{Until: Version{4, 3, 2}}
	until312  = Range{Until: V(3, 12)}
	until313  = Range{Until: V(3, 13)}
	until40   = Range{Until: V(4, 0)}
	until43   = Range{Until: V(4, 3)}
)

// Conflicts that several rows share. What has no entry is won by the argument.
var (
	smallerWins = Conflict{ArgumentPolicy: SmallerWins, ArgumentOperator: SmallerWins}
	policyWins  = Conflict{ArgumentPolicy: PolicyWins, ArgumentOperator: PolicyWins}
)

// tenYears is the longest time that the broker takes, in milliseconds.
const tenYears = 315_360_000_000
