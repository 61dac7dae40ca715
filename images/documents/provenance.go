package documents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/strictjson"
)

// ProvenanceType is that of an attestation with a provenance.
const ProvenanceType = "https://slsa.dev/provenance/v1"

// buildType says what the parameters mean: a section of the documentation. It changes when the
// meaning of a field does.
const buildType = recipe.ProjectURL + "/blob/main/docs/trust.md#build-type-v2"

// buildTypeV1 is that of statements without the recipe.
const buildTypeV1 = recipe.ProjectURL + "/blob/main/docs/supply-chain.md#build-type-v1"

// maxProvenance bounds a predicate that is read, in bytes. That of an image with 200 packages has
// 130 kB.
const maxProvenance = 16 << 20

// errProvenance means that bytes are no provenance of an image of this project.
var errProvenance = failure.New(failure.Content, "not a provenance of this build type")

// provenance is the predicate of SLSA's provenance v1, with the fields that this project writes. It
// says how an image was built, and vouches for nothing: who signs it does.
type provenance struct {
	BuildDefinition *buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails       `json:"runDetails"`
}

// buildDefinition says what was built: equal for equal inputs.
type buildDefinition struct {
	BuildType    string          `json:"buildType"`
	Recipe       json.RawMessage `json:"externalParameters"`
	Dependencies []Resource      `json:"resolvedDependencies"`
}

// runDetails say which run built it, and who is trusted to have done what the predicate says.
type runDetails struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
	Metadata *metadata `json:"metadata,omitempty"`
}

// metadata are of one run of a CI system.
type metadata struct {
	InvocationID string `json:"invocationId"`
}

// Resource is SLSA's ResourceDescriptor.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"` // by algorithm, hex digits
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Run is what a recipe does not know about a build. The zero value is a build by hand without a
// lock.
type Run struct {
	CI
	GoVersion string   // of driver-build: runtime.Version()
	Lock      Resource // that the pins come from; the zero value: none
}

// Provenance returns the predicate of a build as bytes: equal for equal recipes and runs.
func Provenance(r *recipe.Recipe, run Run) ([]byte, error) {
	r = r.Public()
	text, err := oci.EncodeJSON(r, "")
	if err != nil {
		return nil, err
	}
	p := provenance{BuildDefinition: &buildDefinition{buildType, text, dependencies(r)}}
	for _, more := range []struct {
		role string
		of   Resource
	}{{"lock", run.Lock}, {"configuration", run.Config}} {
		if more.of.Name+more.of.URI != "" {
			more.of.Annotations = map[string]string{"role": more.role}
			p.BuildDefinition.Dependencies = append(p.BuildDefinition.Dependencies, more.of)
		}
	}
	// without a platform that vouches for the run: SLSA build level 1
	builder := &p.RunDetails.Builder
	builder.ID = cmp.Or(run.BuilderID, recipe.ProjectURL+"/cmd/driver-build@"+r.Builder.Version)
	builder.Version = map[string]string{"driver-build": r.Builder.Version}
	if run.GoVersion != "" {
		builder.Version["go"] = run.GoVersion
	}
	if run.InvocationID != "" {
		p.RunDetails.Metadata = &metadata{run.InvocationID}
	}
	return oci.EncodeJSON(p, "")
}

// ReadRecipe reads a recipe, as --dry-run prints it, or that of a provenance. What it says may be
// of anybody: see [recipe.Decode]. A provenance whose dependencies are not those of its recipe is
// refused.
func ReadRecipe(data []byte) (*recipe.Recipe, error) {
	fail := func(err error) (*recipe.Recipe, error) { return nil, fmt.Errorf("%w: %w", errProvenance, err) }
	if len(data) > maxProvenance {
		return fail(fmt.Errorf("larger than %d bytes", maxProvenance))
	}
	p, err := strictjson.Decode[provenance](data)
	if err != nil {
		return fail(err)
	}
	switch of := p.BuildDefinition; {
	case of == nil:
		return recipe.Decode(data)
	case of.BuildType == buildTypeV1:
		return fail(
			errors.New(
				"an earlier driver-build wrote it, without the recipe: use the release that built the image, or build the image anew",
			),
		)
	case of.BuildType != buildType:
		return fail(
			fmt.Errorf("the build type is %.200q, this program reads %s", of.BuildType, buildType),
		)
	}
	r, err := recipe.Decode(p.BuildDefinition.Recipe)
	if err != nil {
		return nil, err
	}
	for _, d := range dependencies(r) {
		if !slices.ContainsFunc(
			p.BuildDefinition.Dependencies,
			func(have Resource) bool { return reflect.DeepEqual(d, have) },
		) {
			return fail(
				fmt.Errorf(
					"the recipe has %s %s, and the dependencies do not",
					d.Annotations["role"],
					d.Name,
				),
			)
		}
	}
	return r, nil
}
