package importing

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/images/bundle"
)

// References returns a line REPOSITORY[:TAG]@DIGEST for each name of an image, a base or a chart.
func (r *Result) References() (all []string) {
	for _, i := range r.Done {
		if i.Subject != nil {
			continue
		}
		name := i.Repository + "@" + i.Descriptor.Digest.String()
		for _, t := range i.Tags {
			all = append(all, i.Repository+":"+t+"@"+i.Descriptor.Digest.String())
		}
		if len(i.Tags) == 0 {
			all = append(all, name)
		}
	}
	return all
}

// Values returns values of the chart for the images in one repository. A digest is set if there is one image;
// with several, the chart's pools name them by tags. secret is the name of the secret with the credentials of
// the registry; "" if it needs none.
func (r *Result) Values(secret string) string {
	var images []bundle.Item
	for _, i := range r.Done {
		if i.Kind == bundle.Image {
			images = append(images, i)
		}
	}
	if len(images) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "image:\n  repository: %s\n", images[0].Repository)
	if len(images) == 1 {
		fmt.Fprintf(&b, "  digest: %s\n", images[0].Descriptor.Digest)
	} else {
		b.WriteString("  # Set the tag here, or os, driver or digest for each of the pools:\n")
		for _, i := range images {
			fmt.Fprintf(&b, "  # %s  %s\n", i.Descriptor.Digest, strings.Join(i.Tags, " "))
		}
	}
	if secret != "" {
		fmt.Fprintf(&b, "  pullSecrets: [%s]\n", secret)
	}
	return b.String()
}

// Policies returns, as text to copy, how verifiers check the signatures at the site with a public key.
// Signatures of the origin name it: cosign does not look at that, containers/image (Podman, CRI-O) maps the
// name back. With signed, the key is the site's, whose signatures have the names of the site.
func Policies(origin, to, key string, signed bool) string {
	identity := fmt.Sprintf(`{"type": "remapIdentity", "prefix": "%s", "signedPrefix": "%s"}`, to, origin)
	if signed {
		identity = `{"type": "matchRepository"}`
	}
	return fmt.Sprintf(`# cosign, any version; Kyverno and policy-controller take the same key:
#   cosign verify --key %[3]s --insecure-ignore-tlog REFERENCE@DIGEST
# Podman and CRI-O, in /etc/containers/policy.json:
{
  "default": [{"type": "reject"}],
  "transports": {
    "docker": {
      "%[2]s": [{
        "type": "sigstoreSigned",
        "keyPath": "%[3]s",
        "signedIdentity": %[1]s
      }]
    }
  }
}
# and in /etc/containers/registries.d/driver.yaml:
#   docker:
#     %[2]s:
#       use-sigstore-attachments: true
`, identity, to, key)
}
