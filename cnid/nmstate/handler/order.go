// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
)

// order is a desired state as it is enforced.
type order struct {
	// hash is that of the whole desired state, "" without one.
	hash string
	// document lacks what others manage. It is nil if nothing is desired, or if the desired
	// state can't be read, of which fault says why.
	document *document.State
	fault    error
	foreign  foreign
	// reach are the targets that the node has to reach after a change.
	reach []reach.Target
}

// orderOf reads a desired state. An error means that it is unknown what others manage.
func orderOf(w Wanted, manager func(name string) (string, error)) (o order, err error) {
	if w.Invalid != "" {
		return order{fault: errors.New(w.Invalid)}, nil
	}
	if len(w.Desired) == 0 {
		return order{}, nil
	}
	if o.hash, o.document, o.fault = read(w.Desired); o.fault == nil {
		o.reach, o.fault = reach.ParseList("spec.reach", w.Reach)
		o.foreign, err = leaveOut(o.document, manager)
	}
	return o, err
}

// read returns the hash of a desired state, and its document if there is nothing wrong.
func read(desired map[string]any) (hash string, d *document.State, err error) {
	text, err := json.Marshal(desired) // with sorted keys
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(text)
	hash = hex.EncodeToString(sum[:])
	if err := errors.Join(expressions("", desired)...); err != nil {
		return hash, nil, err
	}
	d, err = document.ParseJSON(text)
	return hash, d, err
}

// expressions are errors about the expressions in a part of a desired state, which nobody
// renders there.
func expressions(path string, part any) (errs []error) {
	switch part := part.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			errs = append(errs, expressions(strings.TrimPrefix(path+"."+key, "."), part[key])...)
		}
	case []any:
		for n, element := range part {
			errs = append(errs, expressions(fmt.Sprintf("%s[%d]", path, n), element)...)
		}
	case string:
		if strings.Contains(part, "{{") {
			errs = append(errs, fmt.Errorf("%s: %q is an expression, which only a policy may have; write the value", path, part))
		}
	}
	return errs
}
