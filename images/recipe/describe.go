package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// firstOpenDefault is the first branch for which NVIDIA's installer prefers the open modules.
const firstOpenDefault = 560

// Describe returns the description that the image holds for its entrypoint.
func (r *Recipe) Describe() (driverinfo.Description, error) {
	id, err := r.contentID()
	if err != nil {
		return driverinfo.Description{}, err
	}
	return driverinfo.Description{
		Schema: driverinfo.Schema, Driver: r.Driver, Branch: r.Branch, OS: r.System, Arch: r.Arch, Profile: string(r.Profile),
		Flavours: PreferredFlavours(
			r.Flavours,
			r.Driver,
		), Kernel: r.Kernel, Overridden: ruleNames(r.Overridden), ID: id,
		Toolchain: r.Toolchain, Precompiled: r.sets(), Companions: r.DescribeCompanions(r.Sources), VGPU: r.VGPU, CUDA: r.CUDA, Advisories: r.Advisories, Patches: r.PatchNotes(),
	}, nil
}

// format is part of contentID, so that images whose description does not name their layers and their
// configuration are out of date.
const format = "layers in driver.json, ld.so.cache"

// contentID tells images of different content apart: it covers all that layers are made from, and
// neither the time nor the compression, which change no file.
func (r *Recipe) contentID() (string, error) {
	programs := r.Entrypoint
	if r.Profile == ModulesOnly { // it has none
		programs = nil
	}
	inputs := []any{
		Version, r.System, r.Driver, r.Branch, r.Arch, r.Profile, r.Flavours, r.Base.Digest, Digests(r.Packages), r.Links,
		r.Source.Digests(), r.LibDir, r.LibDir32, programs, r.Kernel, r.Overridden, r.Toolchain, r.Sources, r.precompiledInputs(),
		format,
	}
	if r.Distroless {
		inputs = append(inputs, "distroless")
	}
	if len(r.Fabric) > 0 {
		inputs = append(inputs, r.FabricDigests())
	}
	if r.VGPU != "" {
		inputs = append(inputs, "vgpu", r.VGPU)
	}
	if r.CUDA != "" || len(r.Advisories) > 0 {
		inputs = append(inputs, r.CUDA, r.Advisories)
	}
	if len(r.Companions) > 0 {
		inputs = append(inputs, "companions", r.CompanionIDs(""))
	}
	if len(r.Patches) > 0 {
		inputs = append(inputs, map[string][]string{"patches": r.PatchDigests(r.Flavours...)})
	}
	if len(r.Repositories) > 0 {
		inputs = append(inputs, r.Public().Repositories)
	}
	b, err := json.Marshal(inputs)
	if err != nil {
		return "", fmt.Errorf("identity of %s: %w", r.Target(), err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// PreferredFlavours puts the flavour first that the driver's own installer would take.
func PreferredFlavours(flavours []string, driver string) []string {
	list := slices.Sorted(slices.Values(flavours)) // "open" before "proprietary"
	if driverinfo.Branch(driver) < firstOpenDefault {
		slices.Reverse(list)
	}
	return list
}

// ruleNames are the names of rules that were set aside, without their reasons.
func ruleNames(overridden []string) (names []string) {
	for _, o := range overridden {
		name, _, _ := strings.Cut(o, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
