package evict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// object decodes an object that was sent in whichever encoding the client chose.
func (c *cluster) object(r *http.Request, into runtime.Object) {
	c.t.Helper()
	types, terr := objectTypes()
	data, err := io.ReadAll(r.Body)
	if err = errors.Join(terr, err); err == nil {
		_, _, err = serializer.NewCodecFactory(types).UniversalDeserializer().Decode(data, nil, into)
	}
	if err != nil {
		c.t.Errorf("%s %s: %v: %s", r.Method, r.URL.Path, err, data)
	}
}

// body decodes a patch and fails on fields that its type does not have.
func (c *cluster) body(r *http.Request, into any) {
	c.t.Helper()
	assert.Equalf(c.t, "application/merge-patch+json", r.Header.Get("Content-Type"), "%s %s is", r.Method, r.URL.Path)
	data, err := io.ReadAll(r.Body)
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err = errors.Join(err, d.Decode(into)); err != nil {
		c.t.Errorf("%s %s: %v: %s", r.Method, r.URL.Path, err, data)
	}
}

// merge is the algorithm of RFC 7386.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		sub, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, sub)
		case isMap:
			into[key] = map[string]any{}
			merge(into[key].(map[string]any), sub)
		default:
			into[key] = value
		}
	}
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func refusal(code int32, reason metav1.StatusReason, text string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: text}
}

// budgetSays is the API server's answer when a budget prevents an eviction
// (pkg/registry/core/pod/storage/eviction.go).
func budgetSays(name string) *metav1.Status {
	st := refusal(429, metav1.StatusReasonTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.")
	st.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs 1 healthy pods and has 1 currently", name)}}}
	return st
}
