package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// get reads a document of the registry.
func (u *user) get(t *testing.T, path string, into any) []byte {
	t.Helper()
	resp := require.Value(http.Get(u.URL + "/v2/" + path))(t)
	raw := require.Value(io.ReadAll(resp.Body))(t)
	require.NoError(t, resp.Body.Close())
	assert.Equalf(t, http.StatusOK, resp.StatusCode, "%s", path)
	require.NoError(t, json.Unmarshal(raw, into))
	return raw
}

// put sends a manifest or, to a path of blobs, a blob.
func (u *user) put(t *testing.T, path, mediaType string, raw []byte) {
	t.Helper()
	method, to := http.MethodPut, u.URL+"/v2/"+path
	if strings.Contains(path, "/blobs/") {
		method, to = http.MethodPost, to+"?digest="+oci.HashOf(raw).String()
	}
	req := require.Value(http.NewRequestWithContext(t.Context(), method, to, bytes.NewReader(raw)))(t)
	req.Header.Set("Content-Type", mediaType)
	resp := require.Value(http.DefaultClient.Do(req))(t)
	require.NoError(t, resp.Body.Close())
	assert.Equalf(t, http.StatusCreated, resp.StatusCode, "%s %s", method, path)
}

// layers are the digests of the layers of all images under a tag.
func (u *user) layers(t *testing.T, repository, tag string) (all []string) {
	t.Helper()
	var top struct {
		Manifests []struct{ Digest string }
		Layers    []struct{ Digest string }
	}
	u.get(t, repository+"/manifests/"+tag, &top)
	for _, l := range top.Layers {
		all = append(all, l.Digest)
	}
	for _, m := range top.Manifests {
		all = append(all, u.layers(t, repository, m.Digest)...)
	}
	return all
}

// requestsFor counts the requests for the content of blobs of one repository.
func (u *user) requestsFor(digests []string) (n int) {
	for _, d := range digests {
		n += u.Requests("GET /v2/team/driver/blobs/" + d)
	}
	return n
}

// TestEmptyRunnerDocuments: an empty runner that finds everything up to date takes the SBOM that is attached
// to the image, so that it reads no layer. Nothing is attached twice.
func TestEmptyRunnerDocuments(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{
		"one image": {"--sbom"}, "index": {"--sbom=cyclonedx", "--arch", "amd64,arm64"}, "signed": {"--sbom", "--provenance", "--image-key"},
		"signed index": {"--arch", "amd64,arm64", "--sbom", "--provenance", "--signature-format", "both", "--image-key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			key, public := u.imageKey(t, "site")
			if strings.HasPrefix(name, "signed") {
				more = append(more, key)
			}
			lock := u.Path("matrix.lock")
			u.Run(t, "lock", "--arch", "amd64,arm64", "--os", "debian12", "--driver", newDriver, "--lock", lock, "--matrix", testfile.Write(t, u.Path("all.yaml"), u.Matrix())).Want(t, 0)
			args := append([]string{"--os", "debian12", "--driver", newDriver, "--lock", lock, "--push", "--repository", u.Host + "/team/driver"}, more...)
			first := u.Run(t, args...).Want(t, 0)
			layers := u.layers(t, "team/driver", "535.261.03-debian12")
			files, read, sent := u.downloads(), u.requestsFor(layers), u.Requests("/blobs/uploads/")
			again := u.fresh(t).Run(t, args...).Want(t, 0)
			assert.Equal(t, first.Stdout, again.Stdout)
			assert.Equalf(t, read, u.requestsFor(layers), "requests for layers\n%s", again.Stderr)
			assert.Equalf(t, files, u.downloads(), "requests for packages and archives\n%s", again.Stderr)
			assert.Equalf(t, sent+2, u.Requests("/blobs/uploads/"), "the only upload is the one that asks for permission")
			if !strings.HasPrefix(name, "signed") {
				return
			}
			r := u.Run(t, "verify", u.Host+"/team/driver:535.261.03-debian12", "--key", public).Want(t, 0)
			n := strings.Count(r.Stdout, ": https://spdx.dev/Document by key")
			assert.Equalf(t, true, n == 1 || n == 6, "%d SBOMs are attested; both formats have each of three\n%s", n, r.Stdout)
		})
	}
}

// TestDocumentsLie: a document with the right key that says something else is not taken by a build that
// verifies signatures; one about another image, of another recipe or that is none by no build. The layers are
// read instead.
func TestDocumentsLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signed bool
		change func(sbom []byte, digest string) []byte
		key    func(string) string
	}{
		"signed, another package": {true, func(b []byte, _ string) []byte { return bytes.Replace(b, []byte("libc6"), []byte("libc7"), 1) }, nil},
		"another image": {false, func(b []byte, digest string) []byte {
			return bytes.ReplaceAll(b, []byte(strings.TrimPrefix(digest, "sha256:")), []byte(strings.Repeat("0", 64)))
		}, nil},
		"no JSON":        {false, func(b []byte, _ string) []byte { return b[:len(b)-10] }, nil},
		"another recipe": {false, func(b []byte, _ string) []byte { return b }, func(string) string { return strings.Repeat("0", 64) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			args := []string{"--os", "debian12", "--driver", newDriver, "--push", "--repository", u.Host + "/team/driver", "--sbom"}
			if c.signed {
				key, _ := u.imageKey(t, "site")
				args = append(args, "--image-key", key)
			}
			u.Run(t, args...).Want(t, 0)
			subject := oci.HashOf(u.get(t, "team/driver/manifests/535.261.03-debian12", new(v1.Manifest)))
			good := u.lie(t, subject, c.change, c.key)
			layers := u.layers(t, "team/driver", subject.String())
			before, runner := u.requestsFor(layers), u.fresh(t)
			r := runner.Run(t, args...).Want(t, 0)
			assert.Equalf(t, true, u.requestsFor(layers) > before, "the layers are read\n%s", r.Stderr)
			var list v1.IndexManifest
			u.get(t, "team/driver/manifests/"+oci.ReferrersTag(subject), &list)
			found := slices.ContainsFunc(list.Manifests, func(d v1.Descriptor) bool { return d.Digest.String() == good })
			assert.Equalf(t, true, found, "the right document is attached: %v", list.Manifests)
		})
	}
}

// lie replaces the SBOM of an image by another one, and returns the digest of the manifest of the right one.
func (u *user) lie(t *testing.T, subject v1.Hash, change func([]byte, string) []byte, key func(string) string) (good string) {
	t.Helper()
	tag := "team/driver/manifests/" + oci.ReferrersTag(subject)
	var list v1.IndexManifest
	u.get(t, tag, &list)
	for i, d := range list.Manifests {
		if d.ArtifactType != "application/spdx+json" {
			continue
		}
		good = d.Digest.String()
		var m v1.Manifest
		var doc any
		u.get(t, "team/driver/manifests/"+good, &m)
		body := change(u.get(t, "team/driver/blobs/"+m.Layers[0].Digest.String(), &doc), subject.String())
		m.Layers[0].Digest, m.Layers[0].Size = oci.HashOf(body), int64(len(body))
		if key != nil {
			m.Annotations[recipe.LabelKey] = key(m.Annotations[recipe.LabelKey])
		}
		raw := require.Value(json.Marshal(m))(t)
		u.put(t, "team/driver/blobs/uploads/", "application/octet-stream", body)
		u.put(t, "team/driver/manifests/"+oci.HashOf(raw).String(), string(m.MediaType), raw)
		d.Digest, d.Size, d.Annotations = oci.HashOf(raw), int64(len(raw)), m.Annotations
		list.Manifests[i] = d
	}
	assert.Equalf(t, true, good != "", "an SBOM is attached")
	u.put(t, tag, string(list.MediaType), require.Value(json.Marshal(list))(t))
	return good
}
