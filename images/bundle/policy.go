package bundle

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/images/recipe"
)

// References returns a line REPOSITORY[:TAG]@DIGEST for each name of an image, a base or a chart.
func (r *Result) References() (all []string) {
	for _, i := range r.Done {
		if i.Subject != nil {
			continue
		}
		digest := "@" + i.Descriptor.Digest.String()
		if len(i.Tags) == 0 {
			all = append(all, i.Repository+digest)
		}
		for _, tag := range i.Tags {
			all = append(all, i.Repository+":"+tag+digest)
		}
	}
	return all
}

// Values returns values of the chart for the images in one repository. A digest is set if there is
// one image; with several, the chart's pools name them by tags. secret is the name of the secret
// with the credentials of the registry; "" if it needs none.
func (r *Result) Values(secret string) string {
	var images, sets []Item
	for _, i := range r.Done {
		switch {
		case i.Kind != Image:
		case len(i.Tags) > 0 && strings.HasSuffix(i.Tags[0], recipe.ModulesSuffix):
			sets = append(sets, i)
		default:
			images = append(images, i)
		}
	}
	if len(images)+len(sets) == 0 {
		return ""
	}
	var b strings.Builder
	for n, i := range sets {
		if n == 0 {
			b.WriteString("moduleImages:\n")
		}
		fmt.Fprintf(&b, "  - %s:%s@%s\n", i.Repository, i.Tags[0], i.Descriptor.Digest)
	}
	fmt.Fprintf(&b, "image:\n  repository: %s\n", append(images, sets...)[0].Repository)
	if len(images) == 1 {
		fmt.Fprintf(&b, "  digest: %s\n", images[0].Descriptor.Digest)
	} else if len(images) > 1 {
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

// openShift is a policy that OpenShift writes to its nodes: policy.json and registries.d.
const openShift = `apiVersion: config.openshift.io/v1
kind: ClusterImagePolicy
metadata:
  name: driver-images
spec:
  scopes: [%[1]s]
  policy:
    rootOfTrust:
      policyType: PublicKey
      publicKey:
        keyData: %[2]s
`

// openShiftOrigin makes it map the names of the origin.
const openShiftOrigin = `    signedIdentity:
      matchPolicy: RemapIdentity
      remapIdentity: {prefix: %s, signedPrefix: %s}
`

// policyController is a policy of sigstore's policy-controller, which looks at no names in
// signatures. It compares the full name of an image, which for docker.io begins with
// index.docker.io.
const policyController = `apiVersion: policy.sigstore.dev/v1beta1
kind: ClusterImagePolicy
metadata:
  name: driver-images
spec:
  images: [{glob: %[1]s**}]
  authorities:
    - key:
        data: |
          %[2]s
`

// Policies returns files by their names: how verifiers check the signatures at the site with a
// public key. The signatures of the site have its names and tags, which containers/image (Podman,
// CRI-O) compares by default. Those of an origin that is not "" have the origin's, which are mapped
// back.
func Policies(origin, to string, key crypto.PublicKey) (map[string]string, error) {
	repository, err := name.NewRepository(to)
	if err != nil {
		return nil, fmt.Errorf("write policies for %s: %w", to, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	data := base64.StdEncoding.EncodeToString(text)
	rule := map[string]any{"type": "sigstoreSigned", "keyData": data}
	cluster := fmt.Sprintf(openShift, to, data)
	if origin != "" {
		rule["signedIdentity"] = map[string]string{
			"type":         "remapIdentity",
			"prefix":       to,
			"signedPrefix": origin,
		}
		cluster += fmt.Sprintf(openShiftOrigin, to, origin)
	}
	policy, err := json.MarshalIndent(map[string]any{
		// other images are none of its business
		"default":    []any{map[string]string{"type": "insecureAcceptAnything"}},
		"transports": map[string]any{"docker": map[string]any{to: []any{rule}}},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"policy.json":     string(policy) + "\n",
		"registries.yaml": fmt.Sprintf("docker:\n  %s:\n    use-sigstore-attachments: true\n", to),
		"openshift.yaml":  cluster,
		"policy-controller.yaml": fmt.Sprintf(
			policyController,
			repository.Name(),
			strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n          "),
		),
	}, nil
}
