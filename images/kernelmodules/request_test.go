package kernelmodules

import (
	"errors"
	"strings"
	"testing"
)

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"schema":1,"images":{"amd64":"sha256:0"},"modules":[{"arch":"amd64","set":"s","name":"nvidia","kernel":"6.1","file":"f","hash":"sha256","digest":"00","sha256":"` + strings.Repeat("0", 64) + `","size":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, err := parseRequest(raw)
		if err != nil && !errors.Is(err, ErrRequest) {
			t.Errorf("%v", err)
		}
		if err == nil && (len(q.Modules) == 0 || strings.ContainsAny(q.Modules[0].SHA256, "/.")) {
			t.Errorf("%+v", q)
		}
	})
}
