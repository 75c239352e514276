package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/rabbitctl/rabbitctl/plan"
)

// PlanJSON writes a plan in the form in which it is saved, with the findings and
// what it was compared with beside it (docs/plan-json.md).
func PlanJSON(w io.Writer, v PlanView) error {
	data, err := plan.MarshalMasked(v.Plan)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	for name, value := range map[string]any{"findings": FindingsJSON(v.Findings), "against": v.Against} {
		if fields[name], err = json.Marshal(value); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, out, "", "  "); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	pretty.WriteByte('\n')
	_, err = pretty.WriteTo(w)
	return err
}
