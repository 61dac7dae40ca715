package recipe

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// precompiled makes the recipe one of an image that brings modules for some kernels. Without a
// toolchain the image is thin: it serves these kernels and flavours and no others, and is built on
// no base unless one is named.
func (r *Recipe) precompiled(t matrix.Target, o Options) {
	r.Toolchain = o.Toolchain
	r.Sources = o.Toolchain || o.Sources
	r.PrecompiledFlavours = CompiledFlavours(t, o.Flavours)
	if !r.Toolchain {
		r.Flavours = r.PrecompiledFlavours
	}
	r.Modules = slices.Sorted(slices.Values(o.Modules))
	r.KMM = o.KMM
	for _, release := range o.Kernels {
		r.Kernels = append(r.Kernels, Kernel{Release: release})
	}
	slices.SortStableFunc(
		r.Kernels,
		func(a, b Kernel) int { return distros.CompareReleases(b.Release, a.Release) },
	)
	if o.Signer != nil {
		r.Signer = sign.Fingerprint(o.Signer.Raw)
	}
}

// bare takes everything but modules out of a recipe that has them. What it asks for stays, so that
// one lock is for both images. What is known of the driver goes with its own image: news of it make
// no set of modules out of date.
func (r *Recipe) bare() {
	r.Distroless = true
	r.Fabric = nil
	r.Kernel = driverinfo.KernelRule{}
	r.CUDA = ""
	r.Advisories = nil
}

// ModulesSuffix ends the tags of images with nothing but modules.
const ModulesSuffix = "-modules"

// Tags are the tags that the image of a target gets with options: the first one names it, the
// others are aliases.
func Tags(t matrix.Target, o Options) (tag string, aliases []string) {
	tag = t.Tag()
	for _, system := range t.System.Aliases {
		aliases = append(aliases, t.Driver.Version+"-"+system)
	}
	if len(o.Kernels) > 0 && !o.OneImage {
		tag, aliases = KernelTags(t, o.Kernels[0])
	}
	if o.Profile == ModulesOnly {
		tag += ModulesSuffix
		for i := range aliases {
			aliases[i] += ModulesSuffix
		}
	}
	return tag, aliases
}

// KernelTags are the tags of an image with modules for one kernel:
// "535.261.03-6.1.0-38-amd64-debian12", and the same with the branch, under which the GPU Operator
// asks for it; and both for each other name of the system.
func KernelTags(t matrix.Target, release string) (tag string, aliases []string) {
	kernel := "-" + distros.KernelTag(release) + "-"
	for _, system := range append([]string{t.System.ID}, t.System.Aliases...) {
		aliases = append(
			aliases,
			t.Driver.Version+kernel+system,
			strings.TrimPrefix(t.Driver.Branch, "R")+kernel+system,
		)
	}
	return aliases[0], aliases[1:]
}

// HasTag says whether a tag is one that an image of the target has: for any kernel, or for one, or
// with modules only.
func HasTag(t matrix.Target, tag string) bool {
	tag = strings.TrimSuffix(tag, ModulesSuffix)
	for _, system := range append([]string{t.System.ID}, t.System.Aliases...) {
		front, ok := strings.CutSuffix(tag, "-"+system)
		if ok &&
			(front == t.Driver.Version || strings.HasPrefix(front, t.Driver.Version+"-") || strings.HasPrefix(front,
				strings.TrimPrefix(t.Driver.Branch, "R")+"-")) {
			return true
		}
	}
	return false
}

// Releases are those of the kernels that the image has modules for.
func (r *Recipe) Releases() (all []string) {
	for _, k := range r.Kernels {
		all = append(all, k.Release)
	}
	return all
}

// sets lists the sets of modules that the image has.
func (r *Recipe) sets() []driverinfo.Precompiled {
	var all []driverinfo.Precompiled
	for _, k := range r.Kernels {
		for _, flavour := range r.PrecompiledFlavours {
			set := driverinfo.Precompiled{Kernel: k.Release, Flavour: flavour}
			if len(k.Signed[flavour]) > 0 {
				first := k.Signed[flavour][0]
				set.Package = first.Name + " " + first.Version
			}
			all = append(all, set)
		}
	}
	return all
}

// HasKernelSources says whether one of Debian's packages has sources of the kernel modules.
func HasKernelSources(name string) bool { return strings.HasSuffix(name, "kernel-source") }

// kernelPins are the digests of what the sources of a flavour come from.
func (s Source) kernelPins(flavour string) []string {
	if s.Runfile != nil {
		return []string{s.Runfile.SHA256}
	}
	var sums []string
	for _, p := range s.Packages {
		if HasKernelSources(p.Name) && PackageFlavour(p.Name) == flavour {
			sums = append(sums, p.Digest())
		}
	}
	return sums
}

// ModulesInputs is what modules are made from.
func (r *Recipe) ModulesInputs(k Kernel, flavour string) []any {
	if len(k.Signed[flavour]) > 0 {
		return r.signedInputs(k, flavour)
	}
	inputs := []any{r.Base.Digest, r.Links, Digests(r.Compiler), Digests(k.Headers)}
	if k.Toolkit != nil { // has compiler and headers, so the base of the image plays no part
		inputs = []any{"toolkit", k.Toolkit.Digest}
	}
	inputs = append(
		inputs,
		r.Source.kernelPins(flavour),
		r.Driver,
		flavour,
		r.Arch,
		k.Release,
		r.Modules,
		kbuild.Method,
		r.Compression,
		r.Epoch,
	)
	if variables := driverinfo.MakeVariables(r.VGPU); variables != nil {
		inputs = append(inputs, variables)
	}
	if ids := r.CompanionIDs(flavour); len(ids) > 0 {
		inputs = append(inputs, ids, Digests(r.companionPins()))
	}
	if sums := r.PatchDigests(flavour); len(sums) > 0 {
		inputs = append(inputs, sums)
	}
	return inputs
}

// signedInputs is what modules are made from that the distribution signed.
func (r *Recipe) signedInputs(k Kernel, flavour string) []any {
	inputs := []any{
		"signed by the distribution",
		Digests(k.Signed[flavour]),
		r.Driver,
		flavour,
		r.Arch,
		k.Release,
		r.Modules,
		r.Compression,
		r.Epoch,
	}
	if len(r.Compiler) > 0 { // links them
		inputs = append(inputs, r.Base.Digest, Digests(r.Compiler))
	}
	return inputs
}

// CompileInputs is what modules are made from, whatever the compression of their layer.
func (r *Recipe) CompileInputs(k Kernel, flavour string) []any {
	bare := *r
	bare.Compression = ""
	return bare.ModulesInputs(k, flavour)
}

// precompiledInputs is what all sets of modules of the image are made from.
func (r *Recipe) precompiledInputs() []any {
	inputs := []any{r.Signer}
	if r.KMM {
		inputs = append(inputs, "kmm")
	}
	for _, k := range r.Kernels {
		for _, flavour := range r.PrecompiledFlavours {
			inputs = append(inputs, r.ModulesInputs(k, flavour))
		}
	}
	return inputs
}
