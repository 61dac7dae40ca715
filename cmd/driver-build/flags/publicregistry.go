package flags

import (
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/publicguard"
)

// PublicRegistry says that images with a vGPU guest driver may go to a registry that is known to be public.
type PublicRegistry struct{ Allowed bool }

// AddTo declares --allow-public-registry.
func (p *PublicRegistry) AddTo(f *pflag.FlagSet) {
	f.BoolVar(&p.Allowed, "allow-public-registry", false, "send images with a vGPU guest driver to Docker Hub, ghcr.io, quay.io and the like: the repository is private")
}

// CheckTargets refuses repositories for images of targets, before anything is built.
func (p *PublicRegistry) CheckTargets(targets []matrix.Target, repositories ...string) error {
	guest, found := matrix.Guest(targets)
	if !found || p.Allowed {
		return nil
	}
	for _, repository := range repositories {
		if repository == noRepository {
			continue
		}
		if err := publicguard.Check(guest.Tag(), guest.Driver.VGPU, repository); err != nil {
			return err
		}
	}
	return nil
}

// CheckImage refuses a repository for an image that is there already.
func (p *PublicRegistry) CheckImage(image, repository string, open func() (publicguard.Artifact, error)) error {
	if p.Allowed {
		return nil
	}
	return publicguard.CheckArtifact(image, repository, open)
}
