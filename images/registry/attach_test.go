package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

const spdx = "application/spdx+json"

// describe is the descriptor of an artifact.
func describe(t *testing.T, a oci.Artifact) v1.Descriptor {
	t.Helper()
	raw := require.Value(a.RawManifest())(t)
	return v1.Descriptor{MediaType: require.Value(a.MediaType())(t), Size: int64(len(raw)), Digest: oci.HashOf(raw)}
}

// referrer makes a referrer with one layer of this text.
func referrer(t *testing.T, subject v1.Descriptor, text string) oci.Attachment {
	t.Helper()
	layer := oci.BytesBlob(spdx, []byte(text), nil)
	return require.Value(oci.NewReferrer(subject, spdx, []oci.Blob{layer}, map[string]string{"text": text}))(t)
}

// signature makes an attachment under .sig, as cosign does: payload and signature are any text.
func signature(t *testing.T, subject v1.Hash, payload string, signatures ...string) oci.Attachment {
	t.Helper()
	var layers []v1.Descriptor
	var blobs []oci.Blob
	var ids []string
	for _, s := range signatures {
		b := oci.BytesBlob("application/vnd.dev.cosign.simplesigning.v1+json", []byte(payload), map[string]string{"dev.cosignproject.cosign/signature": s})
		layers, ids = append(layers, b.Desc), append(ids, b.Desc.Digest.String())
		if len(blobs) == 0 {
			blobs = append(blobs, b)
		}
	}
	config := require.Value(json.Marshal(map[string]any{"architecture": "", "rootfs": map[string]any{"type": "layers", "diff_ids": ids}}))(t)
	blobs = append(blobs, oci.BytesBlob(types.OCIConfigJSON, config, nil))
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: blobs[len(blobs)-1].Desc, Layers: layers}
	raw := require.Value(json.Marshal(m))(t)
	return oci.Attachment{Subject: subject, Tag: oci.SignatureTag(subject), Blobs: blobs, Manifest: oci.NewDocument(raw, m.MediaType)}
}

// names lists attachments: the tag or the artifact type, and the content of all blobs.
func names(t *testing.T, all []oci.Attachment) []string {
	t.Helper()
	var out []string
	for _, a := range all {
		text := a.Tag
		if text == "" {
			text = a.Manifest.Desc.ArtifactType
		}
		for _, b := range a.Blobs {
			raw := require.Value(oci.ReadBlob(b, 1<<20))(t)
			text += " " + string(raw)
		}
		out = append(out, text)
	}
	return out
}

// registries lack the API of referrers, or are strict and have it.
var registries = map[string]func(*testing.T) *fake{"without the API": newFake, "with the API": newStrict}

// TestAttach attaches referrers, referrers of referrers and signatures to an index and one of its images,
// finds all of them, and does it again without sending anything.
func TestAttach(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			img := imagetest.RandomImage(t, "amd64", 1000, "one")
			index := imagetest.Index(t, img, imagetest.RandomImage(t, "arm64", 1000, "one"))
			ref := f.host() + "/team/driver:1"
			assert.Equalf(t, 3, mustPush(t, ref, index).Uploaded, "blobs: the layer of both images once")
			onIndex, onImage := referrer(t, describe(t, index), "index"), referrer(t, describe(t, img), "image")
			second := referrer(t, describe(t, img), "another")
			onReferrer := referrer(t, onImage.Manifest.Desc, "referrer")
			sig := signature(t, imagetest.Digest(t, index), "payload", "s1")
			all := []oci.Attachment{onImage, onIndex, second, onReferrer, sig}
			c := client(t)
			stats, err := c.Attach(t.Context(), ref, all...)
			require.NoError(t, err)
			if stats.Attachments != 5 || stats.Uploaded != 7 {
				t.Errorf("%+v; want 5 attachments and 7 blobs", stats)
			}
			f.forget()
			stats, err = client(t).Attach(t.Context(), ref, all...)
			if err != nil || stats.Uploaded+stats.Mounted != 0 || f.count("PUT", "")+f.count("POST", "") != 0 {
				t.Errorf("again: %+v, %v, %q", stats, err, f.log)
			}
			got := require.Value(client(t).Attachments(t.Context(), ref))(t)
			onImg := []oci.Attachment{onImage, second}
			slices.SortFunc(onImg, func(a, b oci.Attachment) int {
				return strings.Compare(a.Manifest.Desc.Digest.Hex, b.Manifest.Desc.Digest.Hex)
			})
			want := append([]oci.Attachment{onIndex, sig}, append(onImg, onReferrer)...)
			for i, a := range want {
				if i < len(got) && (got[i].Manifest.Desc.Digest != a.Manifest.Desc.Digest || got[i].Subject != a.Subject || got[i].Tag != a.Tag) {
					t.Errorf("attachment %d: %s of %s; want %s of %s", i, got[i].Manifest.Desc.Digest, got[i].Subject, a.Manifest.Desc.Digest, a.Subject)
				}
			}
			assert.Samef(t, sorted(names(t, want)), sorted(names(t, got)), "content")
			assert.Same(t, onIndex.Manifest.Desc.Annotations, got[0].Manifest.Desc.Annotations)
			_, tagged := fallback(t, f, imagetest.Digest(t, img))
			assert.Equal(t, name == "without the API", tagged)
		})
	}
}

// TestAttachTree: whatever refers to what, a registry and a folder find the same attachments in the same order.
func TestAttachTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			choose := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same in each run
			f := newStrict(t)
			img := imagetest.RandomImage(t, "amd64", 10, "one")
			ref := f.host() + "/team/driver:1"
			mustPush(t, ref, img)
			var all []oci.Attachment
			subjects := []v1.Descriptor{describe(t, img)}
			for i := range 8 {
				a := referrer(t, subjects[choose.IntN(len(subjects))], strconv.Itoa(i))
				all = append(all, a)
				subjects = append(subjects, a.Manifest.Desc)
			}
			all = append(all, signature(t, subjects[choose.IntN(len(subjects))].Digest, "payload", "s"))
			require.Value(client(t).Attach(t.Context(), ref, all...))(t)
			dir := t.TempDir()
			require.NoError(t, oci.WriteLayout(t.Context(), dir, "1", img, all...))
			remote := require.Value(client(t).Attachments(t.Context(), ref))(t)
			local := require.Value(client(t).Attachments(t.Context(), "oci:"+dir))(t)
			assert.Equal(t, len(all), len(remote))
			assert.Same(t, names(t, remote), names(t, local))
		})
	}
}

// sorted sorts the words of each text: the order of blobs does not matter.
func sorted(texts []string) []string {
	for i, text := range texts {
		words := strings.Fields(text)
		slices.Sort(words)
		texts[i] = strings.Join(words, " ")
	}
	return texts
}

// fallback reads the index under the fallback tag.
func fallback(t *testing.T, f *fake, subject v1.Hash) (index v1.IndexManifest, found bool) {
	t.Helper()
	resp := require.Value(http.Get(f.URL + "/v2/team/driver/manifests/" + oci.ReferrersTag(subject)))(t)
	defer resp.Body.Close()
	raw := require.Value(io.ReadAll(resp.Body))(t)
	if resp.StatusCode == http.StatusNotFound {
		return index, false
	}
	require.NoError(t, json.Unmarshal(raw, &index))
	return index, true
}

// The index under the fallback tag is extended, also by many goroutines and several clients, and sorted.
func TestAttachFallbackIndex(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	ref := f.host() + "/team/driver:1"
	mustPush(t, ref, img)
	require.Value(client(t).Attach(t.Context(), ref, referrer(t, describe(t, img), "first")))(t)
	c := client(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := c.Attach(t.Context(), ref, referrer(t, describe(t, img), fmt.Sprint("n", i)))
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	index, _ := fallback(t, f, imagetest.Digest(t, img))
	if len(index.Manifests) != 9 || !slices.IsSortedFunc(index.Manifests, func(a, b v1.Descriptor) int { return strings.Compare(a.Digest.Hex, b.Digest.Hex) }) {
		t.Errorf("%d entries; want 9, sorted", len(index.Manifests))
	}
	for _, d := range index.Manifests {
		if d.ArtifactType != spdx || d.Annotations["text"] == "" || d.MediaType != types.OCIManifestSchema1 {
			t.Errorf("entry %+v", d)
		}
	}
}

// Another program replaces the index between our read and our write: it is read again, and nothing is lost.
func TestAttachSeesOtherWriters(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	ref, tag := f.host()+"/team/driver:1", "/manifests/"+oci.ReferrersTag(imagetest.Digest(t, img))
	mustPush(t, ref, img)
	first := referrer(t, describe(t, img), "first")
	require.Value(client(t).Attach(t.Context(), ref, first))(t)
	other := require.Value(oci.AddReferrers(nil, []v1.Descriptor{first.Manifest.Desc}))(t)
	var once sync.Once
	f.failing(func(w http.ResponseWriter, r *http.Request) (handled bool) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, tag) {
			once.Do(func() { // ours is stored, and replaced at once
				handled = true
				f.inner.ServeHTTP(w, r)
				theirs := r.Clone(r.Context())
				theirs.Body = io.NopCloser(strings.NewReader(string(other)))
				f.inner.ServeHTTP(&discard{header: http.Header{}}, theirs)
			})
		}
		return handled
	})
	require.Value(client(t).Attach(t.Context(), ref, referrer(t, describe(t, img), "ours")))(t)
	index, _ := fallback(t, f, imagetest.Digest(t, img))
	assert.Equal(t, 2, len(index.Manifests))
}

// Registries that refuse, and lists of referrers that lie.
func TestAttachmentsRefuse(t *testing.T) {
	t.Parallel()
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	subject := describe(t, img)
	good, stranger := referrer(t, subject, "good"), referrer(t, v1.Descriptor{Digest: oci.HashOf([]byte("x"))}, "stranger")
	list := func(all ...v1.Descriptor) string {
		return string(require.Value(oci.AddReferrers(nil, all))(t))
	}
	lie := good.Manifest.Desc
	lie.Size, lie.ArtifactType = 1<<60, "application/other"
	gone := good.Manifest.Desc
	gone.Digest = oci.HashOf([]byte("gone"))
	for name, tt := range map[string]struct {
		body string
		code int
		want string // of the error; "": one attachment is found
	}{
		"401":          {"", 401, "docker login"},
		"403":          {"", 403, "403"},
		"429":          {"", 429, "429"},
		"500":          {"", 500, "500"},
		"no json":      {"<html>", 200, "no manifests"},
		"no list":      {`{"schemaVersion":2}`, 200, "no manifests"},
		"bad digest":   {`{"schemaVersion":2,"manifests":[{"digest":"sha256:12"}]}`, 200, "malformed"},
		"other digest": {`{"schemaVersion":2,"manifests":[{"digest":"sha512:12"}]}`, 200, "malformed"},
		"huge":         {strings.Repeat(" ", 9<<20), 200, "more than"},
		"lies":         {list(lie, gone, stranger.Manifest.Desc, subject), 200, ""},
		"pages":        {"pages", 200, "more than 1000 pages"},
		"cut":          {"cut", 200, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newStrict(t)
			ref := f.host() + "/team/driver:1"
			mustPush(t, ref, img)
			require.Value(client(t).Attach(t.Context(), ref, good, stranger))(t)
			f.failing(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/referrers/"+subject.Digest.String()) {
					return false
				}
				w.Header().Set("Content-Type", string(types.OCIImageIndex))
				switch tt.body {
				case "pages":
					w.Header().Set("Link", fmt.Sprintf(`<%s?n=%sx>; rel="next"`, r.URL.Path, r.URL.Query().Get("n")))
					fmt.Fprint(w, list(gone))
				case "cut":
					w.Header().Set("Content-Length", "1000")
					fmt.Fprint(w, "{")
				default:
					w.WriteHeader(tt.code)
					fmt.Fprint(w, tt.body)
				}
				return true
			})
			got, err := client(t).Attachments(t.Context(), ref)
			if tt.want == "" {
				if err != nil || len(got) != 1 || got[0].Manifest.Desc.ArtifactType != spdx || got[0].Manifest.Desc.Size != good.Manifest.Desc.Size {
					t.Errorf("%+v, %v; want one attachment as its manifest describes it", got, err)
				}
				return
			}
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

// Artifacts of any kind are pushed and pulled: a chart, and an index with an attestation as BuildKit
// writes it.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := newStrict(t)
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	chart := require.Value(oci.NewReferrer(v1.Descriptor{Digest: oci.HashOf(nil)}, "application/vnd.cncf.helm.config.v1+json",
		[]oci.Blob{oci.BytesBlob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", []byte("chart"), nil)}, nil))(t)
	attestation := buildKitAttestation(t, imagetest.Digest(t, img))
	index := require.Value(json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{
		withPlatform(describe(t, img), "linux", "amd64"), withPlatform(attestation.Manifest.Desc, "unknown", "unknown")}}))(t)
	c := client(t)
	ref := f.host() + "/a:1"
	mustPush(t, ref, img)
	for _, a := range []oci.Attachment{attestation, chart} {
		require.Value(c.Attach(t.Context(), ref, a))(t)
	}
	put(t, f, "a", "both", types.OCIImageIndex, index)
	put(t, f, "a", "chart", types.OCIManifestSchema1, chart.Manifest.Raw)
	for tag, blobs := range map[string]int{"both": 4, "chart": 2} {
		c := client(t)
		artifact := require.Value(artifact(t, c, f.host()+"/a:"+tag))(t)
		to := f.host() + "/" + tag + ":2"
		digest, stats, err := c.Push(t.Context(), to, artifact)
		if err != nil || stats.Uploaded != blobs || digest != imagetest.Digest(t, artifact) {
			t.Errorf("%s: %s %+v, %v; want %d blobs", tag, digest, stats, err, blobs)
		}
	}
	b := require.Value(base(t, client(t), f.host()+"/both:2", "amd64"))(t)
	imagetest.SameLayers(t, b.Image, img)
	if _, err := base(t, client(t), f.host()+"/chart:2", "amd64"); err == nil || !strings.Contains(err.Error(), "not a file system layer") {
		t.Errorf("a chart as a base: %v", err)
	}
}

func withPlatform(d v1.Descriptor, os, arch string) v1.Descriptor {
	d.Platform = &v1.Platform{OS: os, Architecture: arch}
	return d
}

// buildKitAttestation is the manifest of an attestation in an index that BuildKit made.
func buildKitAttestation(t *testing.T, subject v1.Hash) oci.Attachment {
	t.Helper()
	layer := oci.BytesBlob("application/vnd.in-toto+json", []byte("{}\n"), map[string]string{"in-toto.io/predicate-type": "https://spdx.dev/Document"})
	config := oci.BytesBlob(types.OCIConfigJSON, []byte(`{"architecture":"unknown","os":"unknown","rootfs":{"type":"layers","diff_ids":[]}}`), nil)
	raw := require.Value(json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config.Desc, Layers: []v1.Descriptor{layer.Desc}}))(t)
	return oci.Attachment{Subject: subject, Blobs: []oci.Blob{config, layer}, Manifest: oci.NewDocument(raw, types.OCIManifestSchema1)}
}

// put stores a manifest as it is.
func put(t *testing.T, f *fake, repo, tag string, mediaType types.MediaType, raw []byte) {
	t.Helper()
	req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, f.URL+"/v2/"+repo+"/manifests/"+tag, strings.NewReader(string(raw))))(t)
	req.Header.Set("Content-Type", string(mediaType))
	resp := require.Value(http.DefaultClient.Do(req))(t)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusCreated, resp.StatusCode)
}

// TestCopy copies an index with all that belongs to it between registries of both kinds, within a registry by
// mounting, and again without sending anything.
func TestCopy(t *testing.T) {
	t.Parallel()
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := newFake
			if name == "without the API" {
				other = newStrict
			}
			from, to := other(t), start(t)
			img := imagetest.RandomImage(t, "amd64", 1000, "one")
			index := imagetest.Index(t, img)
			ref := from.host() + "/team/driver:1"
			mustPush(t, ref, index)
			require.Value(client(t).Attach(t.Context(), ref, referrer(t, describe(t, index), "i"), referrer(t, describe(t, img), "m"),
				signature(t, imagetest.Digest(t, img), "p", "s")))(t)
			c := client(t)
			copied := func(source, target string, want Stats) {
				t.Helper()
				digest, stats, err := c.Copy(t.Context(), source, target, "alias")
				stats.Bytes = 0
				if diff := cmp.Diff(want, stats); err != nil || digest != imagetest.Digest(t, index) || diff != "" {
					t.Errorf("Copy = %s, %v %s", digest, err, diff)
				}
				for _, tag := range []string{":2", ":alias"} {
					got := require.Value(client(t).Attachments(t.Context(), strings.TrimSuffix(target, ":2")+tag))(t)
					assert.Samef(t, sorted(names(t, require.Value(c.Attachments(t.Context(), source))(t))), sorted(names(t, got)), "%s", tag)
				}
			}
			copied(ref, to.host()+"/mirror/driver:2", Stats{Uploaded: 7, Existing: 1, Attachments: 3})
			copied(ref, to.host()+"/mirror/driver:2", Stats{Existing: 6, Attachments: 3})
			copied(to.host()+"/mirror/driver:2", to.host()+"/other:2", Stats{Mounted: 7, Existing: 1, Attachments: 3})
		})
	}
}

// TestAttachIndex: a referrer may be an index. What it names goes with it.
func TestAttachIndex(t *testing.T) {
	t.Parallel()
	f := newStrict(t)
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	from, to := f.host()+"/team/driver:1", f.host()+"/other:1"
	mustPush(t, from, img)
	child := buildKitAttestation(t, imagetest.Digest(t, img))
	subject := describe(t, img)
	raw := require.Value(json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, ArtifactType: spdx, Subject: &subject, Manifests: []v1.Descriptor{child.Manifest.Desc}}))(t)
	index := oci.Attachment{Subject: subject.Digest, Blobs: child.Blobs, Nested: []oci.Document{child.Manifest}, Manifest: oci.Document{
		Raw: raw, Desc: v1.Descriptor{MediaType: types.OCIImageIndex, Size: int64(len(raw)), Digest: oci.HashOf(raw), ArtifactType: spdx}}}
	require.Value(client(t).Attach(t.Context(), from, index))(t)
	_, stats, err := client(t).Copy(t.Context(), from, to)
	if err != nil || stats.Attachments != 1 {
		t.Errorf("Copy = %+v, %v", stats, err)
	}
	got := require.Value(client(t).Attachments(t.Context(), to))(t)
	if len(got) != 1 || len(got[0].Nested) != 1 || got[0].Nested[0].Desc.Digest != child.Manifest.Desc.Digest || got[0].Manifest.Desc.ArtifactType != spdx {
		t.Errorf("%+v", got)
	}
}
