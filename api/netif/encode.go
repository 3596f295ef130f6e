// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netif

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/quote"
)

// Encode returns the description for an object of the API. It accepts nil.
func Encode(i *Interface) (*runtime.RawExtension, error) {
	if i == nil {
		return nil, nil
	}
	text, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("encode interface %s: %w", i.Name, err)
	}
	return &runtime.RawExtension{Raw: text}, nil
}

// Decode reads the description of an object of the API, nil without one. Unknown keys are
// accepted, because a newer operator may write them.
func Decode(raw *runtime.RawExtension) (*Interface, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	i := &Interface{}
	if err := json.Unmarshal(raw.Raw, i); err != nil {
		return nil, fmt.Errorf("decode an interface: %w", quote.Error(err))
	}
	if err := i.Check(); err != nil {
		return nil, fmt.Errorf("decode an interface: %w", err)
	}
	return i, nil
}
