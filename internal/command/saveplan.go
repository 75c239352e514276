package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rabbitctl/rabbitctl/plan"
)

// savePlan writes a plan for apply.
func savePlan(name string, p *plan.Plan) error {
	data, err := plan.Marshal(p)
	if err == nil {
		err = save(name, data)
	}
	if err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return nil
}

// save writes a file that only its owner can read. It is renamed into place, so
// that a killed run leaves no half of it. Where a link leads is replaced and not
// the link, and what is no file, such as /dev/stdout, is written to.
func save(name string, data []byte) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	name, err := followLinks(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".rabbitctl-plan-*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// followLinks is where a name leads, whether anything is there or not.
func followLinks(name string) (string, error) {
	const most = 40
	for range most {
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil // it is no link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return "", fmt.Errorf("%s: too many links", name)
}
