// Package features writes the labels that Node Feature Discovery is to give a node: which driver serves it and which GPUs it has, so that
// pods can select them. NFD's worker reads files of NAME=VALUE lines in /etc/kubernetes/node-feature-discovery/features.d (its "local"
// source) and makes labels of those whose namespace it may write; nvidia.com is one of them by default.
//
// GPU feature discovery has labels of its own (nvidia.com/gpu.product, nvidia.com/cuda.driver-version.*); this package writes none of those
// names. It does not decide when a driver counts as serving.
package features

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FileName is the file in NFD's folder. Its unfinished copy begins with a dot: NFD leaves those alone.
const FileName = "nvidia-driver"

const prefix = "nvidia.com/driver."

// GPU is one GPU of the node.
type GPU struct {
	Model string // "Tesla T4"; see Model
	Works bool   // the driver initialised it
}

// Labels are what a driver of this version ("535.261.03") and flavour with these GPUs is labelled with:
//
//	nvidia.com/driver.version.full, .major, .minor, .revision   a part that a version does not have has no label
//	nvidia.com/driver.flavour                                   open or proprietary
//	nvidia.com/driver.gpu.model                                 Tesla-T4, or mixed
//	nvidia.com/driver.gpu.count, .working                       how many there are, and how many of them initialised
//	nvidia.com/driver.gpu.count.MODEL                           of each model, where they are mixed
//
// Without gpus nothing is said of them: it is not known.
func Labels(version, flavour string, gpus []GPU) map[string]string {
	labels := map[string]string{}
	set := func(name, value string) {
		if value = Value(value); value != "" {
			labels[prefix+name] = value
		}
	}
	set("version.full", version)
	for i, part := range strings.SplitN(version, ".", 3) {
		set("version."+[]string{"major", "minor", "revision"}[i], part)
	}
	set("flavour", flavour)
	if len(gpus) == 0 {
		return labels
	}
	models, working := map[string]int{}, 0
	for _, g := range gpus {
		models[Value(g.Model)]++
		if g.Works {
			working++
		}
	}
	set("gpu.count", strconv.Itoa(len(gpus)))
	set("gpu.working", strconv.Itoa(working))
	if len(models) == 1 {
		set("gpu.model", gpus[0].Model)
	}
	if len(models) > 1 {
		set("gpu.model", "mixed")
		for model, n := range models {
			if model != "" {
				set(trim(cut("gpu.count."+model, maxName-len("driver."))), strconv.Itoa(n))
			}
		}
	}
	return labels
}

// maxName bounds the name of a label after its prefix, and its value.
const maxName = 63

// Value makes the value of a label of a text: letters, digits, -, _ and . with a letter or digit at both ends, at most 63. What is not
// allowed becomes a -, several of them one.
func Value(text string) string {
	var b strings.Builder
	dash := false
	for _, r := range text {
		if r > 0x7f || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", r) {
			dash = true
			continue
		}
		if dash && b.Len() > 0 {
			b.WriteByte('-')
		}
		dash = false
		b.WriteRune(r)
	}
	return trim(cut(trim(b.String()), maxName))
}

func cut(s string, most int) string { return s[:min(len(s), most)] }
func trim(s string) string          { return strings.Trim(s, "-_.") }

// Write puts labels into NFD's folder, as a whole file. A file that says the same already is left alone: NFD looks at all that changes.
// The folder is the host's and must be mounted: it is not made.
func Write(dir string, labels map[string]string) (err error) {
	var text strings.Builder
	text.WriteString("# Written by the NVIDIA driver container, and removed when its driver goes.\n")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(name + "=" + labels[name] + "\n")
	}
	path := filepath.Join(dir, FileName)
	if old, err := os.ReadFile(path); err == nil && string(old) == text.String() {
		return nil
	}
	f, err := os.CreateTemp(dir, "."+FileName+".tmp-*")
	if err != nil {
		return fmt.Errorf("write node features to %s: %w; is that folder of the host mounted, and writable?", dir, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write node features to %s: %w", path, err)
		}
	}()
	_, err = f.WriteString(text.String())
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Remove takes the file away; there may be none. Copies that an instance left unfinished when it was killed go, too.
func Remove(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "."+FileName+".tmp-*"))
	errs := []error{err}
	for _, path := range append(left, filepath.Join(dir, FileName)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove node features: %w", err))
		}
	}
	return errors.Join(errs...)
}
