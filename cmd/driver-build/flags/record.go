package flags

import (
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/documents"
)

// Record says which documents a build gives to its images.
type Record struct{ sbom, provenance string }

// AddTo declares the flags.
func (r *Record) AddTo(f *pflag.FlagSet) {
	f.StringVar(&r.sbom, "sbom", "", "attach a bill of materials: spdx, which --sbom alone means, or cyclonedx")
	f.Lookup("sbom").NoOptDefVal = string(documents.SPDX)
	f.StringVar(&r.provenance, "provenance", "", "attach a signed statement how the image was built: by driver-build, which --provenance alone means, or by the ci job that runs it")
	f.Lookup("provenance").NoOptDefVal = "driver-build"
}

// Check returns what the flags ask for. signed says whether there is a key.
func (r *Record) Check(getenv func(string) string, signed bool) (out attestation.Record, err error) {
	if r.sbom != "" {
		if out.SBOM, err = documents.ParseFormat(r.sbom); err != nil {
			return out, session.Usagef("--sbom: %w", err)
		}
	}
	switch r.provenance {
	case "":
		return out, nil
	case "driver-build":
	case "ci":
		var ok bool
		if out.Run.CI, ok = documents.FromCI(getenv); !ok {
			return out, session.Usagef("--provenance=ci: the environment is not that of a job of GitHub Actions or GitLab CI: give --provenance, which names driver-build as the builder")
		}
	default:
		return out, session.Usagef("--provenance=%s is not known: use driver-build or ci", r.provenance)
	}
	if out.Provenance = true; !signed {
		return out, session.Usagef("--provenance is a statement that is signed: give --image-key or --sign-with")
	}
	return out, nil
}
