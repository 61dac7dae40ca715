package kmod

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const testVermagic = "6.1.0-38-amd64 SMP preempt mod_unload modversions "

// moduleOf returns a module with a .modinfo section.
func moduleOf(entries ...string) []byte {
	return kbuildtest.ModuleFile(strings.Join(entries, "\x00")+"\x00", nil, nil)
}

func nvidiaModule() []byte {
	return moduleOf("firmware=nvidia/535.261.03/gsp_tu10x.bin", "firmware=nvidia/535.261.03/gsp_ga10x.bin", "version=535.261.03",
		"license=NVIDIA", "srcversion=AC415F9243EB439A4D6B17F", "depends=drm,i2c-core", "retpoline=Y", "name=nvidia",
		"vermagic="+testVermagic, "parm=NvSwitchRegDwords:NvSwitch regkey", "parmtype=NvSwitchRegDwords:charp",
		"parmtype=NVreg_EnableMSI:int", "parmtype=NVreg_RegistryDwords:charp", "parm=rm_firmware-active:a description", "junk", "=")
}

// Made by openssl cms -sign -binary -noattr -nocerts with an ECDSA key: by issuer and serial number, and by
// key id.
const (
	cmsByIssuer = "MIHTBgkqhkiG9w0BBwKggcUwgcICAQExDTALBglghkgBZQMEAgEwCwYJKoZIhvcNAQcBMYGgMIGdAgEBMDYwLzEQMA4GA1UECgwHRXhhbXBsZTEbMBkGA1UEAwwSQnVpbGRlciBvZiBtb2R1bGVzAgNKDxEwCwYJYIZIAWUDBAIBMAoGCCqGSM49BAMCBEcwRQIgYbQfObFJzuOu5/zd3CMW7VtMFT7xP8pxY0l+QghSAKYCIQDQ72MUcRRGXOyoP28OuMNmk/xkibvJlUSWe0MY4XhYLQ=="
	cmsByKeyID  = "MIGvBgkqhkiG9w0BBwKggaEwgZ4CAQMxDTALBglghkgBZQMEAgMwCwYJKoZIhvcNAQcBMX0wewIBA4AUXdkdGyfwzPY6vlbUWm8PSEKRVrkwCwYJYIZIAWUDBAIDMAoGCCqGSM49BAMEBEcwRQIgId0dhxD0vCmguiMbGjpvURxjPUYQoyR/dYZMUXXPhOACIQD4b8CMyf8k2ztZO8ZvMATw8BpHqWvJsf3/aiM6EAUB2A=="
)

func der(t testing.TB, b64 string) []byte {
	t.Helper()
	return require.Value(base64.StdEncoding.DecodeString(b64))(t)
}

// The trailer that follows a signature: see kmod/sign.
const (
	sigMagic   = "~Module signature appended~\n"
	sigTrailer = 12
)

// signed appends a signature as scripts/sign-file does.
func signed(module, sig []byte) []byte {
	b := append(bytes.Clone(module), sig...)
	trailer := make([]byte, sigTrailer)
	trailer[2] = 2 // PKCS#7
	binary.BigEndian.PutUint32(trailer[8:], uint32(len(sig)))
	return append(append(b, trailer...), sigMagic...)
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	content, _ := os.ReadFile(path) // none is empty
	require.NoError(t, os.WriteFile(path, append(content, text...), 0o644))
}
