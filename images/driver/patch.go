package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/patch"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// patch changes the sources of the recipe's flavours as its patches say.
func (d *Driver) patch(ctx context.Context, env packages.Env, r *recipe.Recipe) error {
	var all []*patch.Patch
	for _, p := range r.Patches {
		text, err := PatchText(ctx, env.Fetch, p)
		if err != nil {
			return err
		}
		parsed, err := p.Parse(text)
		if err != nil {
			return err
		}
		all = append(all, parsed)
	}
	changed := map[string]bool{}
	for _, p := range all {
		for _, name := range p.Files() {
			if changed[name] {
				continue
			}
			changed[name] = true
			if err := d.patchFile(all, name, r); err != nil {
				return fmt.Errorf("%w (--no-patches builds without the matrix's patches)", err)
			}
		}
	}
	return nil
}

// patchFile changes one file, whose name is that in NVIDIA's archives, if the recipe has its
// flavour.
func (d *Driver) patchFile(all []*patch.Patch, name string, r *recipe.Recipe) error {
	for _, flavour := range r.Flavours {
		rest, ok := strings.CutPrefix(name, matrix.PatchFolder(flavour)+"/")
		if !ok {
			continue
		}
		place := recipe.KernelDir(r.Driver, flavour) + "/" + rest
		mode := fs.FileMode(0o644)
		text := []byte(nil) // a new file
		if e, exists := d.Kernel.Lstat(place); exists {
			if e.Kind != rootfs.File || e.Size > patch.MaxSource {
				return fmt.Errorf(
					"patch %s: %w: in the sources it is no file of at most %d bytes",
					name,
					ErrContent,
					patch.MaxSource,
				)
			}
			old, err := d.Kernel.ReadFile(place)
			if err != nil {
				return fmt.Errorf("patch %s: %w", name, err)
			}
			mode = e.Mode
			text = append([]byte{}, old...)
		}
		result, err := patch.Apply(all, name, text)
		if err != nil {
			return err
		}
		if err := d.Kernel.AddBytes(place, mode, result); err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
	}
	return nil
}

// PatchText returns the text of a patch: from the matrix, or from its address. It compares the
// digest.
func PatchText(ctx context.Context, client *fetch.Client, p matrix.Patch) ([]byte, error) {
	text := []byte(p.Text)
	if p.URL != "" {
		name, _, err := client.Get(ctx, fetch.File{URL: p.URL, SHA256: p.SHA256}, nil)
		if err != nil {
			return nil, fmt.Errorf("patch %s: %w", p.Name, err)
		}
		content, err := bounded.Text(name, patch.MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("patch %s: %s: %w", p.Name, p.URL, err)
		}
		text = []byte(content)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf(
			"patch %s: %w",
			p.Name,
			&fetch.MismatchError{
				URL:  p.File + p.URL,
				Want: p.SHA256,
				Got:  hex.EncodeToString(sum[:]),
			},
		)
	}
	return text, nil
}
