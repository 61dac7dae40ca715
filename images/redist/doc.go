// Package redist reads what NVIDIA publishes of a driver beside the .run archive: a manifest
// (redistrib_<version>.json) and one tar.xz archive for each component and platform. The driver itself is one
// of the components, and the programs of machines with NVSwitch exist in this form only.
//
// The package knows formats: it downloads nothing, and does not decide which archive belongs into an image.
// The manifest is not signed. A caller may take a sha256 from it as one opinion among others; what a build
// uses is pinned in the matrix.
package redist

import (
	"errors"

	"github.com/driver-container/driver-container/distros/failure"
)

// Base is where NVIDIA publishes the manifests. The paths in a manifest are relative to its own folder.
const Base = "https://developer.download.nvidia.com/compute/nvidia-driver/redist/"

// The kinds of errors.
var (
	ErrManifest = errors.New("no manifest of driver archives")
	ErrArchive  = failure.New(failure.Content, "no archive of NVIDIA's redist folder")
	ErrUnsafe   = errors.New("unsafe member")
	ErrTooLarge = errors.New("too large")
)

// Bounds of a manifest. That of 620.70.06 has some 12 KB and 13 components.
const (
	MaxManifest   = 1 << 20
	maxComponents = 200
	maxVariants   = 50
	maxText       = 1024
	maxFile       = 8 << 30 // bytes of an archive
)

// Bounds of an archive. The driver's has 1.8 GB and 1,200 members.
const (
	maxContent = 4 << 30
	maxMembers = 20_000
	maxName    = 1024
	maxDepth   = 32
)

// ManifestName is the name of a driver's manifest in the folder.
func ManifestName(version string) string { return "redistrib_" + version + ".json" }

// Archs maps the platforms of images to Go's names of architectures.
var Archs = map[string]string{"linux-x86_64": "amd64", "linux-sbsa": "arm64"}

// Platform returns NVIDIA's name of an architecture: linux-sbsa for arm64.
func Platform(arch string) string {
	for platform, known := range Archs {
		if known == arch {
			return platform
		}
	}
	return ""
}
