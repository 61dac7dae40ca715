package distros

import (
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// SignedModules is a package with NVIDIA's kernel modules for one kernel, which the distribution
// builds and signs with a key that is built into that kernel.
type SignedModules struct {
	Release string // of the kernel, as in uname -r
	Flavour string // "open" or "proprietary"
	// Driver is the version of the driver; "": the package depends on just that version of the
	// package DriverPackage.
	Driver        string
	DriverPackage string
	// Others are packages of the same version that have the rest: objects and signatures of modules
	// that are linked on the machine that uses them.
	Others []string
}

// ModuleSigner is a Distro that has such packages.
type ModuleSigner interface {
	Distro
	// SignedModulesPrefixes begin the names of the packages.
	SignedModulesPrefixes() []string
	// ParseSignedModules reads what a package has from its name, version and architecture, in the
	// forms of Package. ok is false for other packages, and for metapackages.
	ParseSignedModules(name, version, arch string) (set SignedModules, ok bool)
	// SignedModulesRepository returns the id of the repository with the packages, if the base has it
	// switched off or a subscription has it; arch is a Go name. "": they are in the usual ones.
	SignedModulesRepository(arch string) string
	// ModuleLinker returns the packages that link modules of a flavour; nil: they come linked.
	ModuleLinker(flavour string) []string
	// ModuleKey returns the key that signs them. Its names are "" where they are not public.
	ModuleKey() ModuleKey
}

// ModuleKey is a distribution's key for modules. Later keys have longer names.
type ModuleKey struct {
	System string // ID of its os-release
	// Signer begins what a signature names: the common name of the certificate's issuer.
	Signer string
	// Builtin begins the common name of the certificate that the kernels have.
	Builtin string
}

// SigningModules returns the system as a ModuleSigner, if it is one.
func SigningModules(d Distro) (signer ModuleSigner, ok bool) {
	signer, ok = d.(ModuleSigner)
	return signer, ok && len(signer.SignedModulesPrefixes()) > 0
}

// FindModuleKey returns the distribution's key that a signature names as its signer.
func FindModuleKey(signer string) (key ModuleKey, ok bool) {
	for _, d := range All() {
		system, signs := SigningModules(d)
		if !signs {
			continue
		}
		key = system.ModuleKey()
		if key.Signer != "" && strings.HasPrefix(signer, key.Signer) {
			return key, true
		}
	}
	return ModuleKey{}, false
}

const (
	openFlavour        = "open"
	proprietaryFlavour = "proprietary"
)

// canonicalName matches linux-modules-nvidia-BRANCH[-server][-open]-RELEASE. A metapackage has the
// name of a flavour in place of the release, which begins with three numbers.
var canonicalName = lazyregexp.New(
	`^linux-modules-nvidia-([0-9]{3,4}(?:-server)?)(-open)?-([0-9]+\.[0-9]+\.[0-9]+-[0-9]+-[a-z0-9.+-]+)$`,
)

// SignedModulesPrefixes returns Ubuntu's.
//
// Canonical builds these packages of each kernel from linux-restricted-modules and
// linux-restricted-signatures, in the component restricted. With -open they have the signed modules,
// /lib/modules/RELEASE/kernel/nvidia-580srv-open/nvidia.ko (packages.ubuntu.com, lists of files).
// Without, the licence asks for modules that are linked where they are used: linux-objects-nvidia-...
// has objects, the linker's calls (BUILD) and SHA256SUMS of the linked modules in
// /lib/modules/RELEASE/kernel/nvidia-580srv/bits, and linux-signatures-nvidia-RELEASE has the
// signatures beside them, nvidia.ko.sig. The script of linux-modules-nvidia-... links, compares the
// sums and appends the signatures (debian/scripts/dkms-build--nvidia-N of Ubuntu's kernels;
// lists.ubuntu.com/archives/kernel-team/2021-March/117828.html, .../2022-September/133205.html).
func (d deb) SignedModulesPrefixes() []string {
	return given(d.family == "ubuntu", "linux-modules-nvidia-")
}

// ParseSignedModules leaves the driver's version to the dependency on nvidia-kernel-common-580-server
// (>= 580.159.03), as packages.ubuntu.com shows it.
func (d deb) ParseSignedModules(name, _, _ string) (set SignedModules, ok bool) {
	m := canonicalName().FindStringSubmatch(name)
	if m == nil || d.family != "ubuntu" || d.Headers(m[3]) == nil {
		return set, false
	}
	set = SignedModules{
		Release:       m[3],
		Flavour:       openFlavour,
		DriverPackage: "nvidia-kernel-common-" + m[1],
	}
	if m[2] == "" {
		set.Flavour = proprietaryFlavour
		set.Others = []string{
			"linux-objects-nvidia-" + m[1] + "-" + m[3],
			"linux-signatures-nvidia-" + m[3],
		}
	}
	return set, true
}

// SignedModulesRepository returns nothing: Ubuntu's images have the component restricted.
func (d deb) SignedModulesRepository(string) string { return "" }

// ModuleLinker returns what linux-objects-nvidia-... depends on.
func (d deb) ModuleLinker(flavour string) []string {
	return given(flavour == proprietaryFlavour, "binutils")
}

// ModuleKey is the certificate in each Ubuntu kernel since 2021, key id
// 88f752e560a1e0737e31163a466ad7b70a850c19, as modinfo and the kernel's log show it.
func (d deb) ModuleKey() ModuleKey {
	const name = "Canonical Ltd. Kernel Module Signing"
	return ModuleKey{System: d.family, Signer: name, Builtin: name}
}

// kmodName matches kmod-nvidia-open-DRIVER-KERNEL, and kmod-64k-nvidia-open-... for the kernels of
// that flavour. KERNEL is a release without system and architecture.
var kmodName = lazyregexp.New(
	`^kmod-(?:([a-z0-9]+)-)?nvidia-open-([0-9]+(?:\.[0-9]+){1,2})-([0-9]+\.[0-9]+\.[0-9]+-[0-9.]+)$`,
)

// SignedModulesPrefixes returns those of RHEL 10, whose minor versions from 10.1 on have them
// (NVIDIA/yum-packaging-precompiled-kmod, DISTROS.md and issue 59: the repository
// rhel-10-for-x86_64-extensions-rpms). NVIDIA's own kmod-nvidia-DRIVER-KERNEL is signed by a key of
// NVIDIA's that no kernel has built in (issue 67), and is not meant here.
func (d el) SignedModulesPrefixes() []string {
	return given(d.ID() == "rhel10", "kmod-nvidia-open-", "kmod-64k-nvidia-open-")
}

// ParseSignedModules reads kmod-nvidia-open-580.105.08-6.12.0-124.20.1, version
// 580.105.08-3.el10_1: kernel 6.12.0-124.20.1.el10_1.x86_64.
func (d el) ParseSignedModules(name, version, arch string) (set SignedModules, ok bool) {
	m := kmodName().FindStringSubmatch(name)
	_, build, found := strings.Cut(version, "-")
	_, dist, dotted := strings.Cut(build, ".")
	if m == nil || d.ID() != "rhel10" || !found || !dotted {
		return set, false
	}
	release := m[3] + "." + dist + "." + arch
	if m[1] != "" {
		release += "+" + m[1]
	}
	return SignedModules{Release: release, Flavour: openFlavour, Driver: m[2]}, isRelease(release)
}

// SignedModulesRepository returns the one of a subscription.
func (d el) SignedModulesRepository(arch string) string {
	a, ok := LookupArch(arch)
	if d.ID() != "rhel10" || !ok {
		return ""
	}
	return "rhel-10-for-" + a.Kernel + "-extensions-rpms"
}

// ModuleLinker returns nothing.
func (d el) ModuleLinker(string) []string { return nil }

// ModuleKey is the issuer that modinfo shows as the signer of kmod-nvidia-open's modules, and the
// certificate that RHEL's kernels have built in, as their log shows it
// (redhat/centos-stream/src/kernel/centos-stream-9, merge request 3464, "add nvidia oot signing
// key").
func (d el) ModuleKey() ModuleKey {
	return ModuleKey{System: d.family, Signer: "Nvidia GPU OOT CA", Builtin: "Nvidia GPU OOT signing"}
}

// cudaVersion matches DRIVER-1_KERNEL. KERNEL is a release with a point in place of the hyphen.
var cudaVersion = lazyregexp.New(
	`^([0-9]+(?:\.[0-9]+){1,2})-[0-9]+_([0-9]+\.[0-9]+\.[0-9]+(?:\.[0-9]+)?)\.([0-9]+\.azl3)$`,
)

// SignedModulesPrefixes returns cuda-open and, for the later kernels, cuda-open-hwe, of Microsoft's
// repository packages.microsoft.com/azurelinux/3.0/prod/nvidia, which no base names
// (Azure/azhpc-images, components/install_nvidiagpudriver.sh; NVIDIA/yum-packaging-precompiled-kmod,
// DISTROS.md). Whether the proprietary modules of the package cuda are signed is not public.
func (d azureLinux) SignedModulesPrefixes() []string { return []string{"cuda-open"} }

// ParseSignedModules reads cuda-open-hwe, version 580.105.08-1_6.12.57.1.1.azl3: kernel
// 6.12.57.1-1.azl3, as in DISTROS.md and microsoft/azurelinux, issue 13433.
func (d azureLinux) ParseSignedModules(name, version, _ string) (set SignedModules, ok bool) {
	m := cudaVersion().FindStringSubmatch(version)
	if m == nil || name != "cuda-open" && name != "cuda-open-hwe" {
		return set, false
	}
	return SignedModules{Release: m[2] + "-" + m[3], Flavour: openFlavour, Driver: m[1]}, true
}

// SignedModulesRepository returns nothing: the row of the matrix names the repository.
func (d azureLinux) SignedModulesRepository(string) string { return "" }

// ModuleLinker returns nothing.
func (d azureLinux) ModuleLinker(string) []string { return nil }

// ModuleKey has no names: no public source shows them.
func (d azureLinux) ModuleKey() ModuleKey { return ModuleKey{System: d.family} }
