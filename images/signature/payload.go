package signature

import (
	"bytes"
	"encoding/json"
	"fmt"

	strict "github.com/go-json-experiment/json"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// payloadMediaType is that of the layers of .sig.
	payloadMediaType types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// signatureAnnotation of such a layer is the signature over its bytes, in base64. The layers of .att have
	// it without a value.
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	payloadType         = "cosign container image signature"

	maxPayload = 64 << 10
)

// payload is what .sig signs: containers/image's "simple signing" format, as cosign fills it
// (sigstore/pkg/signature/payload). The order of the fields is cosign's, so the bytes are equal too.
type payload struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

func encodePayload(identity string, digest v1.Hash) ([]byte, error) {
	var p payload
	p.Critical.Identity.DockerReference = identity
	p.Critical.Image.DockerManifestDigest = digest.String()
	p.Critical.Type = payloadType
	return encode(p)
}

func decodePayload(raw []byte) (payload, error) {
	var p payload
	if err := decode(raw, maxPayload, &p); err != nil {
		return p, fmt.Errorf("the payload: %w", err)
	}
	if p.Critical.Type != payloadType {
		return p, fmt.Errorf("the payload has the type %.80q and is no signature of cosign", p.Critical.Type)
	}
	return p, nil
}

// encode returns the JSON of a value on one line, without a line feed and without HTML's escapes.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads one JSON value of at most limit bytes and nothing behind it. It reads as the standard says and
// encoding/json does not: names have one spelling and occur once. Else two readers could take what is signed
// for two things.
func decode(raw []byte, limit int, value any) error {
	if len(raw) > limit {
		return fmt.Errorf("it has %d bytes, more than %d", len(raw), limit)
	}
	return strict.Unmarshal(raw, value)
}
