package rehearse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/images/verify"
)

// rendered is what the chart makes of values with parameters of modules, a secret and the API server.
const rendered = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: gpu-modules}
data:
  nvidia.conf: "NVreg_EnableMSI=0\n"
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: gpu}
spec:
  template:
    spec:
      initContainers:
        - {name: driver-evict, image: "h.example/driver:535-debian12"}
      containers:
        - name: nvidia-driver-ctr
          image: "h.example/driver:535-debian12"
          command: [nvidia-driver]
          args: ["init", "--drm", "--log-format", "json"]
          env:
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
            - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}
            - {name: DRIVER_EVENTS, value: "true"}
            - {name: KERNEL_MODULE_TYPE, value: open}
          envFrom:
            - secretRef: {name: more}
          volumeMounts:
            - {name: run-nvidia, mountPath: /run/nvidia, mountPropagation: Bidirectional}
            - {name: dev, mountPath: /dev}
            - {name: module-parameters, mountPath: /drivers/nvidia.conf, subPath: nvidia.conf, readOnly: true}
            - {name: other, mountPath: /etc/other}
            - {name: token, mountPath: /var/run/token}
            - {name: forgotten, mountPath: /forgotten}
      volumes:
        - {name: run-nvidia, hostPath: {path: /run/nvidia, type: DirectoryOrCreate}}
        - {name: dev, hostPath: {path: /dev}}
        - {name: module-parameters, configMap: {name: gpu-modules}}
        - {name: other, configMap: {name: of-the-site}}
        - {name: token, projected: {}}
`

// fakeHelm puts a program helm first in the PATH, which prints a text and ends with a code.
func fakeHelm(t *testing.T, text, code string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "out"), []byte(text), 0o644))
	script := "#!/bin/sh\ncat " + dir + "/out\n[ " + code + " = 0 ] || echo 'values do not meet the schema' >&2\nexit " + code + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "helm"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestRender(t *testing.T) {
	fakeHelm(t, rendered, "0")
	pod, err := Render(t.Context(), "chart", "values.yaml", "oci:dist")
	require.NoError(t, err)
	c := pod.container("image")
	assert.Same(t, []string{"NODE_NAME=rehearsal", "KERNEL_MODULE_TYPE=open"}, c.Env[:2])
	assert.Same(t, []string{"init", "--drm", "--log-format", "json", "--log-format=text"}, c.Args)
	assert.Equal(t, true, c.HostDev)
	assert.Same(t, []guest.Mount{
		{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
		{Host: "/run/rehearse/config/gpu-modules/nvidia.conf", Guest: "/drivers/nvidia.conf", ReadOnly: true, File: true},
	}, c.Mounts)
	assert.Same(t, map[string]string{"/run/rehearse/config/gpu-modules/nvidia.conf": "NVreg_EnableMSI=0\n"}, pod.Files)
	left := strings.Join(pod.Left, "\n")
	for _, what := range []string{"driver-evict", "secretEnv", "SECRET", "DRIVER_EVENTS", "of-the-site", "/var/run/token", "/forgotten"} {
		assert.Contains(t, left, what)
	}
	poisoned := pod.container("image", guest.Mount{Host: poisonFile, Guest: "/drivers/nvidia.conf"})
	assert.Equalf(t, 2, len(poisoned.Mounts), "a mount takes the place of another")
	assert.Equalf(t, 2, len(pod.Container.Mounts), "the pod is as it was")
}

// TestRenderRefuses: what cannot be a pod of this project's chart is one sentence.
func TestRenderRefuses(t *testing.T) {
	second := strings.ReplaceAll(strings.ReplaceAll(rendered, "name: gpu}", "name: two}"), "535-debian12", "470-debian12")
	for name, c := range map[string]struct{ text, code, image, want string }{
		"another chart": {"kind: DaemonSet\n", "0", "oci:dist", "is it the chart of this project"},
		"helm fails":    {"", "1", "oci:dist", "helm template: exit status 1: values do not meet the schema"},
		"no YAML":       {"a: [", "0", "oci:dist", "read what the chart chart makes of values.yaml"},
		"two pools":     {rendered + second, "0", "oci:dist", "several pools, and none has the image oci:dist: they have h.example/driver:535-debian12, h.example/driver:470-debian12"},
		"too much":      {"#" + strings.Repeat("x", maxRendered), "0", "oci:dist", "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeHelm(t, c.text, c.code)
			_, err := Render(t.Context(), "chart", "values.yaml", c.image)
			assert.ErrorContains(t, err, c.want)
		})
	}
	t.Run("of two pools", func(t *testing.T) {
		fakeHelm(t, rendered+second, "0")
		for _, image := range []string{"h.example/driver:470-debian12", "oci:dist:470-debian12", "h.example/mirror/driver:470-debian12@sha256:00"} {
			_, err := Render(t.Context(), "chart", "values.yaml", image)
			require.NoError(t, err)
		}
	})
	t.Setenv("PATH", t.TempDir())
	_, err := Render(t.Context(), "chart", "values.yaml", "oci:dist")
	assert.ErrorContains(t, err, "there is no program helm: install Helm")
}

// FuzzObjects: what helm prints is read without a panic.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(rendered))
	f.Add([]byte("kind: DaemonSet\nspec: {template: {spec: {containers: [{name: nvidia-driver-ctr, volumeMounts: [{name: x}]}], volumes: [{name: x}]}}}"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		objects, err := parseObjects(text)
		if err != nil {
			return
		}
		spec, err := choosePod(objects, "oci:dist")
		if err == nil {
			spec.pod(objects)
		}
	})
}

func TestChooseRelease(t *testing.T) {
	t.Parallel()
	has := func(kernels ...string) *image {
		return &image{ref: "i", summary: &verify.Inspection{Driver: "535", Kernels: kernels}}
	}
	for name, c := range map[string]struct {
		asked string
		all   []*image
		want  string
	}{
		"asked":     {"x", []*image{has("6.1.0-9-amd64")}, "x"},
		"newest":    {"", []*image{has("6.1.0-9-amd64", "6.1.0-10-amd64")}, "6.1.0-10-amd64"},
		"common":    {"", []*image{has("6.1.0-9-amd64", "6.1.0-10-amd64"), has("6.1.0-9-amd64", "5.10.0-1-amd64")}, "6.1.0-9-amd64"},
		"universal": {"", []*image{has(), has("5.10.0-1-amd64")}, "5.10.0-1-amd64"},
		"none":      {"", []*image{has(), has()}, ""},
	} {
		got, err := chooseRelease(c.asked, c.all)
		require.NoErrorf(t, err, "%s", name)
		assert.Equalf(t, c.want, got, "%s", name)
	}
	_, err := chooseRelease("", []*image{has("a"), has("b")})
	assert.ErrorContains(t, err, "the images have modules for no kernel in common (i for a; i for b): give --kernel")
	assert.Equal(t, true, compiles("a", []*image{has("a"), has("b")}))
	assert.Equal(t, false, compiles("a", []*image{has("a"), {summary: &verify.Inspection{}}}))
}
