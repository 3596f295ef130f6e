// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/quote"
)

// maxAttachments is the maximum number of interfaces of a pod: the elements of both lists that
// users write, and the default network's interface.
const maxAttachments = 2*maxElements + 1

// AttachmentHash returns the ElementHash of the element that FormatAttachments writes
// for an attachment.
func AttachmentHash(a netif.Interface) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encode attachment %s: %w", a.Name, err)
	}
	return ElementHash(text), nil
}

// ElementHash returns the SHA-256 of one element of the annotation alioth.dev/attachments, as
// 64 hexadecimal digits. Blanks between the tokens do not change the hash. The order of keys
// and the form of values do, so that two readers can't understand one hash differently. The
// hash depends on all keys, also on keys that this version doesn't know.
func ElementHash(element json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, element) != nil { // no JSON: no operator has written it
		compact.Reset()
		compact.Write(element)
	}
	sum := sha256.Sum256(compact.Bytes())
	return hex.EncodeToString(sum[:])
}

// FormatAttachments returns the text of the annotation alioth.dev/attachments.
func FormatAttachments(list []netif.Interface) (string, error) {
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode attachments: %w", quote.Error(err))
	}
	return string(text), nil
}

// ParseAttachments reads the annotation alioth.dev/attachments. Unknown keys
// are accepted, because a newer operator may write them.
func ParseAttachments(text string) ([]netif.Interface, error) {
	return decodeAttachments[netif.Interface](text)
}

// Hashed is an attachment with the hash of its element in the annotation.
type Hashed struct {
	netif.Interface
	// Hash is the ElementHash of the text that was read. If another version has written
	// the text, it can differ from the AttachmentHash of Attachment.
	Hash string
}

// UnmarshalJSON decodes one element of the annotation, and computes its hash.
func (h *Hashed) UnmarshalJSON(element []byte) error {
	h.Hash = ElementHash(element)
	return json.Unmarshal(element, &h.Interface)
}

// ParseAttachmentsHashed reads the annotation alioth.dev/attachments as
// ParseAttachments does, with the hash of each element. An AttachmentClaim has the hash
// of the element that it allows.
func ParseAttachmentsHashed(text string) ([]Hashed, error) {
	return decodeAttachments[Hashed](text)
}

func decodeAttachments[T any, P interface {
	*T
	Check() error
}](text string) ([]T, error) {
	var list []T
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode attachments: %w", quote.Error(err))
	}
	if len(list) > maxAttachments {
		return nil, fmt.Errorf(
			"decode attachments: there are %d, and a pod has at most %d interfaces",
			len(list),
			maxAttachments,
		)
	}
	for i := range list {
		if err := P(&list[i]).Check(); err != nil {
			return nil, fmt.Errorf("decode attachments: element %d: %w", i, err)
		}
	}
	return list, nil
}
