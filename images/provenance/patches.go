package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/patch"
	"github.com/driver-container/driver-container/images/recipe"
)

// Patch is what the matrix says of a patch of the driver's kernel sources. The dependency of its name has
// digest and address, or the text of a file.
type Patch struct {
	Name     string            `json:"name"`
	File     string            `json:"file,omitempty"`
	Flavours []string          `json:"flavours"`
	Kernels  []driverinfo.Span `json:"kernels"`
	Licence  string            `json:"licence"`
	Reason   string            `json:"reason"`
	Origin   string            `json:"origin"`
}

// patches returns those of the parameters, without digests.
func (x *Parameters) patches() (all []recipe.Patch) {
	for _, p := range x.Patches {
		all = append(all, recipe.Patch{
			Name: p.Name, File: p.File, Flavours: p.Flavours, Kernels: p.Kernels, Licence: p.Licence, Reason: p.Reason, Origin: p.Origin,
		})
	}
	return all
}

// addPatch completes the patch that a dependency is the text of.
func addPatch(r *recipe.Recipe, d Resource) error {
	i := slices.IndexFunc(r.Patches, func(p recipe.Patch) bool { return p.Name == d.Name && p.SHA256 == "" })
	if i < 0 {
		return errors.New("no parameter tells of this patch")
	}
	p := &r.Patches[i]
	p.SHA256, p.URL, p.Text = d.Digest["sha256"], d.URI, string(d.Content)
	sum := sha256.Sum256(d.Content)
	switch {
	case !sha256Shape.MatchString(p.SHA256):
		return errors.New("it has no SHA-256")
	case len(d.Content) > patch.MaxBytes:
		return fmt.Errorf("its text has %d bytes, more than %d", len(d.Content), patch.MaxBytes)
	case p.URL == "" && hex.EncodeToString(sum[:]) != p.SHA256:
		return errors.New("its text does not have the digest")
	case p.URL != "" && (!IsWeb(p.URL) || len(d.Content) > 0 || p.File != ""):
		return errors.New("it has an address, which is none with http or https, or a text besides")
	}
	for _, f := range p.Flavours {
		if f != matrix.Proprietary && f != matrix.Open {
			return fmt.Errorf("%.80q is no flavour of kernel modules", f)
		}
	}
	return nil
}
