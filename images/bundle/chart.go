package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/oci"
)

// The media types of Helm's OCI artifacts (helm.sh/helm/v3/pkg/registry).
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartType       types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Bounds of a chart. Ours has 30 files and 100 KB.
const (
	maxChart = 20 << 20 // bytes, unpacked; Helm's own bound
	maxFiles = 10_000
	maxMeta  = 1 << 20 // bytes of Chart.yaml
)

// HelmChart is a chart as an artifact of a registry.
type HelmChart struct {
	Name, Version string
	Content       *oci.Content
}

// ReadChart makes the OCI artifact of a Helm chart, as `helm push` does, without Helm: of a folder with Chart.yaml, or
// of the archive that `helm package` makes, whose bytes stay. The same chart gives the same digest.
func ReadChart(file string) (*HelmChart, error) {
	c, err := readChart(file)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", file, err)
	}
	return c, nil
}

func readChart(file string) (*HelmChart, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readArchive(file)
	}
	files, err := readFolder(file)
	if err != nil {
		return nil, err
	}
	meta, err := parseMeta(files)
	if err != nil {
		return nil, err
	}
	archive, err := pack(meta.name, files)
	if err != nil {
		return nil, err
	}
	return meta.chart(archive)
}

// chartFile is a file of a chart; name is its path below the chart's folder.
type chartFile struct {
	name    string
	content []byte
}

// readArchive finds Chart.yaml in an archive, at DIR/Chart.yaml.
func readArchive(name string) (*HelmChart, error) {
	raw, err := bounded.File(name, maxChart)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("it is neither a folder nor an archive of a chart: %w", err)
	}
	r := tar.NewReader(io.LimitReader(z, maxChart))
	for range maxFiles {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("it is no archive of a chart with a Chart.yaml: %w", err)
		}
		if path.Base(h.Name) != metaFile || path.Dir(path.Dir(h.Name)) != "." || path.Dir(h.Name) == "." {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, maxMeta))
		if err != nil {
			return nil, err
		}
		meta, err := parseMeta([]chartFile{{metaFile, content}})
		if err != nil {
			return nil, err
		}
		return meta.chart(raw)
	}
	return nil, fmt.Errorf("it has more than %d members", maxFiles)
}

const metaFile = "Chart.yaml"

// chartMeta is Chart.yaml.
type chartMeta struct {
	name, version string
	json          []byte
}

var (
	nameShape    = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	versionShape = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
)

func parseMeta(files []chartFile) (chartMeta, error) {
	for _, f := range files {
		if f.name != metaFile {
			continue
		}
		fields := map[string]any{}
		if err := yaml.Unmarshal(f.content, &fields); err != nil {
			return chartMeta{}, fmt.Errorf("its Chart.yaml is malformed: %w", err)
		}
		raw, err := json.Marshal(fields)
		if err != nil {
			return chartMeta{}, fmt.Errorf("its Chart.yaml is malformed: %w", err)
		}
		name, _ := fields["name"].(string)
		version, _ := fields["version"].(string)
		if !nameShape.MatchString(name) || !versionShape.MatchString(version) {
			return chartMeta{}, fmt.Errorf("its Chart.yaml has the name %q and the version %q, which are no name and version of a chart", name, version)
		}
		return chartMeta{name, version, raw}, nil
	}
	return chartMeta{}, errors.New("it has no Chart.yaml")
}

// chart makes the artifact of an archive.
func (m chartMeta) chart(archive []byte) (*HelmChart, error) {
	config := oci.BytesBlob(chartConfigType, m.json, nil)
	layer := oci.BytesBlob(chartType, archive, nil)
	raw, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config.Desc, Layers: []v1.Descriptor{layer.Desc},
		Annotations: map[string]string{"org.opencontainers.image.title": m.name, "org.opencontainers.image.version": m.version},
	})
	if err != nil {
		return nil, err
	}
	d := oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}
	return &HelmChart{m.name, m.version, &oci.Content{Blobs: []oci.Blob{layer, config}, Documents: []oci.Document{d}}}, nil
}
