// Package provenance says how an image was built: the predicate of SLSA's provenance v1, made from the
// recipe, and what differs between two of them.
//
// It does not sign, and makes no statement about an image: the caller names the subject.
package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// PredicateType is that of an attestation with a Predicate.
const PredicateType = "https://slsa.dev/provenance/v1"

// BuildType says what the parameters mean: a section of the documentation. It changes when a parameter does.
const BuildType = recipe.ProjectURL + "/blob/main/docs/supply-chain.md#build-type-v1"

// Predicate is SLSA's provenance v1. The types have the fields that this project writes.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition says what was built: equal for equal inputs.
type BuildDefinition struct {
	BuildType    string     `json:"buildType"`
	External     Parameters `json:"externalParameters"`
	Internal     Internal   `json:"internalParameters"`
	Dependencies []Resource `json:"resolvedDependencies"`
}

// Parameters are what the user decided, all of it: with them and the resolved dependencies the image can be
// built again.
type Parameters struct {
	System           string                `json:"system"`
	Driver           string                `json:"driver"`
	Branch           string                `json:"branch"`
	Arch             string                `json:"arch"`
	Tag              string                `json:"tag"`
	Aliases          []string              `json:"aliases,omitempty"`
	Profile          string                `json:"profile"`
	Flavours         []string              `json:"flavours"`
	Base             string                `json:"base,omitempty"` // the name; a base from a file has none
	Repositories     []matrix.Repository   `json:"repositories,omitempty"`
	OnlyThese        bool                  `json:"onlyTheseRepositories,omitempty"`
	Toolchain        bool                  `json:"toolchain"`
	Sources          bool                  `json:"sources"`
	KMM              bool                  `json:"kmm,omitempty"` // the modules are laid out for Kernel Module Management too
	Kernels          []string              `json:"kernels,omitempty"`
	Precompile       []string              `json:"precompile,omitempty"` // flavours of the modules
	Modules          []string              `json:"modules,omitempty"`
	Signer           string                `json:"signer,omitempty"` // SHA-256 of the certificate whose key signs the modules
	Overridden       []string              `json:"overridden,omitempty"`
	Compression      string                `json:"compression"`
	SourceDateEpoch  int64                 `json:"sourceDateEpoch"` // seconds
	KernelRule       driverinfo.KernelRule `json:"kernel,omitzero"`
	CUDA             string                `json:"cuda,omitempty"` // highest version that the driver runs natively
	Advisories       []driverinfo.Advisory `json:"advisories,omitempty"`
	VGPU             string                `json:"vgpu,omitempty"`    // whose licence a vGPU guest driver needs
	Patches          []Patch               `json:"patches,omitempty"` // of the driver's kernel sources, by name; the dependencies have their texts
	DependenciesFrom string                `json:"dependenciesFrom"`  // "lock", or "repositories" at the time of the build
}

// Internal is what the builder decided.
type Internal struct {
	RecipeSchema int    `json:"recipeSchema"`
	Runner       string `json:"runner,omitempty"` // what compiled the modules: "buildkit", "chroot"
}

// RunDetails say which run built it.
type RunDetails struct {
	Builder    Builder    `json:"builder"`
	Metadata   *Metadata  `json:"metadata,omitempty"`
	Byproducts []Resource `json:"byproducts,omitempty"`
}

// Builder is who is trusted to have done what the predicate says.
type Builder struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// Metadata are of one run. All of them are left out unless the caller asks for them: they make the predicates
// of equal builds differ.
type Metadata struct {
	InvocationID string `json:"invocationId,omitempty"`
	StartedOn    string `json:"startedOn,omitempty"`
	FinishedOn   string `json:"finishedOn,omitempty"`
}

// Resource is SLSA's ResourceDescriptor.
type Resource struct {
	Name             string            `json:"name,omitempty"`
	URI              string            `json:"uri,omitempty"`
	Digest           map[string]string `json:"digest,omitempty"` // by algorithm, hex digits
	DownloadLocation string            `json:"downloadLocation,omitempty"`
	MediaType        string            `json:"mediaType,omitempty"`
	Content          []byte            `json:"content,omitempty"` // of a file that is at no address
	Annotations      map[string]string `json:"annotations,omitempty"`
}

// Run is what a recipe does not know about a build. The zero value is a build by hand without a lock.
type Run struct {
	BuilderID         string // "": driver-build of its version
	InvocationID      string
	Started, Finished time.Time // zero: left out
	GoVersion         string    // of driver-build: runtime.Version()
	Runner            string

	Matrix, Lock *Resource  // files that the recipe came from, by their digests; nil: none
	Configs      []Resource // further inputs: the repository that a CI job checked out
	Byproducts   []Resource // the SBOM, logs of compiles
}

// DefaultBuilder is the id of driver-build where no platform vouches for the run (SLSA build level 1).
func DefaultBuilder(b recipe.BuilderInfo) string {
	return recipe.ProjectURL + "/cmd/driver-build@" + b.Version
}

// New returns the predicate of a build: equal for equal recipes and runs.
func New(r *recipe.Recipe, run Run) Predicate {
	r = r.Public()
	p := Predicate{
		BuildDefinition: BuildDefinition{
			BuildType: BuildType, External: parameters(r, run), Internal: Internal{RecipeSchema: r.Schema, Runner: run.Runner},
			Dependencies: dependencies(r, run),
		},
		RunDetails: RunDetails{
			Builder:    Builder{ID: run.BuilderID, Version: map[string]string{"driver-build": r.Builder.Version}},
			Byproducts: sorted(run.Byproducts),
		},
	}
	if p.RunDetails.Builder.ID == "" {
		p.RunDetails.Builder.ID = DefaultBuilder(r.Builder)
	}
	if run.GoVersion != "" {
		p.RunDetails.Builder.Version["go"] = run.GoVersion
	}
	m := Metadata{InvocationID: run.InvocationID, StartedOn: timestamp(run.Started), FinishedOn: timestamp(run.Finished)}
	if m != (Metadata{}) {
		p.RunDetails.Metadata = &m
	}
	return p
}

func parameters(r *recipe.Recipe, run Run) Parameters {
	p := Parameters{
		System: r.System, Driver: r.Driver, Branch: r.Branch, Arch: r.Arch, Tag: r.Tag, Aliases: r.Aliases, Profile: string(r.Profile),
		Flavours: slices.Sorted(slices.Values(r.Flavours)), Base: r.Base.Name, OnlyThese: r.OnlyThese, Toolchain: r.Toolchain, Sources: r.Sources, KMM: r.KMM,
		Kernels: r.Releases(), Precompile: r.PrecompiledFlavours, Modules: r.Modules, Signer: r.Signer, Overridden: r.Overridden,
		Compression: string(r.Compression), SourceDateEpoch: r.Epoch, DependenciesFrom: "repositories",
		Repositories: r.Repositories, KernelRule: r.Kernel, VGPU: r.VGPU, CUDA: r.CUDA, Advisories: r.Advisories,
	}
	for _, x := range r.Patches {
		p.Patches = append(p.Patches, Patch{
			Name: x.Name, File: x.File, Flavours: x.Flavours, Kernels: x.Kernels, Licence: x.Licence, Reason: x.Reason, Origin: x.Origin,
		})
	}
	if run.Lock != nil {
		p.DependenciesFrom = "lock"
	}
	return p
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Encode returns the predicate as bytes: equal for equal predicates.
func (p Predicate) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("write the provenance: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
