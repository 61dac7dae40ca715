package kmod

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod/sign"
)

func TestReadInfo(t *testing.T) {
	t.Parallel()
	want := Info{
		Name: "nvidia", Version: "535.261.03", Vermagic: testVermagic, SrcVersion: "AC415F9243EB439A4D6B17F", License: "NVIDIA",
		Depends: []string{"drm", "i2c_core"}, Firmware: []string{"nvidia/535.261.03/gsp_tu10x.bin", "nvidia/535.261.03/gsp_ga10x.bin"},
		Params: map[string]string{"NvSwitchRegDwords": "charp", "NVreg_EnableMSI": "int", "NVreg_RegistryDwords": "charp", "rm_firmware-active": "a description"},
		Signed: true, Signer: "Builder of modules", SigHash: "sha256", SigKeyID: "4A:0F:11",
	}
	for _, kind := range []string{"", ".gz", ".xz", ".zst"} {
		path := filepath.Join(t.TempDir(), "nvidia.ko"+kind)
		require.NoError(t, os.WriteFile(path, repotest.Compress(t, kind, signed(nvidiaModule(), der(t, cmsByIssuer))), 0o644))
		got, err := ReadInfo(path)
		require.NoErrorf(t, err, "ReadInfo(%s)", path)
		assert.Samef(t, want, got, "ReadInfo of nvidia.ko%s (-want +got)", kind)
		assert.Equalf(t, "6.1.0-38-amd64", got.Release(), "Release()")
	}
}

// Kernels before 4.13 do not write the name.
func TestReadInfoNameOfTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nvidia-uvm.ko.gz")
	require.NoError(t, os.WriteFile(path, repotest.Compress(t, ".gz", moduleOf("vermagic=4.4.0-210-generic SMP")), 0o644))
	got, err := ReadInfo(path)
	if err != nil || got.Name != "nvidia_uvm" || got.Signed {
		t.Errorf("ReadInfo = %+v, %v; want nvidia_uvm, not signed", got, err)
	}
}

func TestReadInfoRefuses(t *testing.T) {
	t.Parallel()
	good := nvidiaModule()
	shared := bytes.Clone(good)
	binary.LittleEndian.PutUint16(shared[16:], 3)
	for name, content := range map[string][]byte{
		"empty": nil, "text": []byte("#!/bin/sh\n"), "half": good[:len(good)/2], "shared object": shared, "other section": bytes.Replace(good, []byte(".modinfo"), []byte(".comment"), 1), "no vermagic": moduleOf("name=x"),
		"gzip of text": repotest.Compress(t, ".gz", []byte("hello")),
		"cut gzip":     repotest.Compress(t, ".gz", good)[:40], "cut xz": repotest.Compress(t, ".xz", good)[:60],
		"cut zstd": repotest.Compress(t, ".zst", good)[:40],
	} {
		path := filepath.Join(t.TempDir(), "x.ko")
		require.NoError(t, os.WriteFile(path, content, 0o644))
		if _, err := ReadInfo(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
			t.Errorf("ReadInfo of %s: %v; want ErrFormat with the path", name, err)
		}
	}
	assert.ErrorIsf(t, assert.Err(ReadInfo(filepath.Join(t.TempDir(), "none.ko"))), fs.ErrNotExist, "ReadInfo of nothing")
	pipe := filepath.Join(t.TempDir(), "pipe.ko")
	require.NoError(t, unix.Mkfifo(pipe, 0o644))
	if _, err := ReadInfo(pipe); !errors.Is(err, ErrFormat) {
		t.Errorf("ReadInfo of a pipe: %v; want ErrFormat at once", err)
	}
}

func TestUnpackLimit(t *testing.T) {
	t.Parallel()
	for kind, suffix := range map[string]string{"gzip": ".gz", "xz": ".xz", "zstd": ".zst"} {
		packed := repotest.Compress(t, suffix, make([]byte, 1<<20))
		if _, err := unpack(bytes.NewReader(packed), kind, 1<<20); err != nil {
			t.Errorf("unpack %s at the limit: %v", kind, err)
		}
		assert.ErrorIsf(t, assert.Err(unpack(bytes.NewReader(packed), kind, 1<<20-1)), ErrFormat, "unpack %s over the limit", kind)
	}
}

// TestSignatures: what a signature claims, and that a damaged one is there.
func TestSignatures(t *testing.T) {
	t.Parallel()
	module := moduleOf("name=x", "vermagic="+testVermagic)
	keyID := Info{Signed: true, SigHash: "sha512", SigKeyID: "5D:D9:1D:1B:27:F0:CC:F6:3A:BE:56:D4:5A:6F:0F:48:42:91:56:B9"}
	for name, c := range map[string]struct {
		file []byte
		want Info
	}{
		"none":           {module, Info{}},
		"issuer":         {signed(module, der(t, cmsByIssuer)), Info{Signed: true, Signer: "Builder of modules", SigHash: "sha256", SigKeyID: "4A:0F:11"}},
		"twice":          {signed(signed(module, der(t, cmsByIssuer)), der(t, cmsByKeyID)), keyID},
		"damaged":        {signed(module, der(t, cmsByIssuer)[:80]), Info{Signed: true}},
		"only a trailer": {append(make([]byte, sigTrailer), sigMagic...), Info{Signed: true}},
	} {
		var got Info
		require.NoError(t, got.readSignature(bytes.NewReader(c.file), int64(len(c.file))))
		assert.Samef(t, c.want, got, "%s", name)
	}
}

func TestCheckParams(t *testing.T) {
	t.Parallel()
	info := parseModinfo([]byte(strings.Join([]string{"name=nvidia", "parmtype=NVreg_EnableMSI:int", "parmtype=NVreg_ModifyDeviceFiles:int",
		"parmtype=NVreg_RegistryDwords:charp"}, "\x00")))
	if err := info.CheckParams([]string{"NVreg_EnableMSI=1", "NVreg-EnableMSI=1", "dyndbg=+p", "async_probe"}); err != nil {
		t.Errorf("CheckParams of known names: %v", err)
	}
	for name, nearest := range map[string]string{"NVreg_EnableMSl": "did you mean NVreg_EnableMSI?", "nvreg_enablemsi": "did you mean NVreg_EnableMSI?",
		"EnableMSI": "did you mean NVreg_EnableMSI?", "NVreg_ModifyDeviceFile": "did you mean NVreg_ModifyDeviceFiles?", "something_else": "the names"} {
		err := info.CheckParams([]string{"NVreg_EnableMSI=0", name + "=1"})
		assert.ErrorContains(t, err, "module nvidia has no parameter "+name+": "+nearest)
	}
}

func FuzzReadInfo(f *testing.F) {
	f.Add(nvidiaModule())
	f.Add(signed(nvidiaModule(), der(f, cmsByIssuer)))
	f.Add(signed(moduleOf("vermagic=1"), der(f, cmsByKeyID)))
	f.Add(repotest.Compress(f, ".gz", nvidiaModule()))
	f.Add(repotest.Compress(f, ".xz", nvidiaModule()))
	f.Add(repotest.Compress(f, ".zst", nvidiaModule()))
	f.Fuzz(func(t *testing.T, b []byte) {
		data := b
		if kind, err := sign.Compression(bytes.NewReader(b)); err == nil && kind != "" {
			if data, err = unpack(bytes.NewReader(b), kind, 1<<20); err != nil {
				return
			}
		}
		info, err := readInfo(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			assert.ErrorIsf(t, err, ErrFormat, "readInfo")
			return
		}
		if err := info.CheckParams([]string{"NVreg_X=1"}); err != nil && info.hasParam("NVreg_X") {
			t.Errorf("CheckParams: %v", err)
		}
		if !info.Signed && (info.SigHash != "" || info.SigKeyID != "" || info.Signer != "") {
			t.Errorf("details of a signature that is not there: %+v", info)
		}
	})
}

// FuzzReadLinkage: any content gives a linkage or an error.
func FuzzReadLinkage(f *testing.F) {
	f.Add(kbuildtest.ModuleFile("vermagic=6.1\x00depends=nvidia\x00alias=x\x00softdep=pre: y\x00", []string{"a"}, []string{"c"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "x.ko")
		require.NoError(t, os.WriteFile(file, content, 0o600))
		l, err := ReadLinkage(file)
		if err == nil && len(l.Depends)+len(l.Aliases)+len(l.Softdeps)+len(l.Exports) > len(content) {
			t.Errorf("%d bytes gave %+v", len(content), l)
		}
	})
}

// TestReadLinkage: what depmod reads of a module, and files that are none.
func TestReadLinkage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.ko")
	whole := kbuildtest.ModuleFile("vermagic=6.1\x00depends=nvidia,i2c-core\x00alias=pci:v1\x00alias=x-*\x00softdep=pre: y\x00", []string{"a", "b"}, []string{"c"})
	require.NoError(t, os.WriteFile(file, whole, 0o600))
	l := require.Value(ReadLinkage(file))(t)
	assert.Equal(t, "nvidia i2c_core|pci:v1 x-*|pre: y|a b",
		strings.Join([]string{strings.Join(l.Depends, " "), strings.Join(l.Aliases, " "), strings.Join(l.Softdeps, " "), strings.Join(l.Exports, " ")}, "|"))
	for _, bad := range [][]byte{nil, []byte("text"), whole[:70], whole[:len(whole)-100]} {
		require.NoError(t, os.WriteFile(file, bad, 0o600))
		if _, err := ReadLinkage(file); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}
