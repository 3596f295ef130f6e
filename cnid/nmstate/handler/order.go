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
	"github.com/alioth-net/alioth/cnid/nmstate/policy"
)

// order is a part of a desired state as it is enforced: in a transaction of its own.
type order struct {
	// path is the first path of the part, "" for fields outside of all parts.
	path string
	// hash is the hash of the part, "" without one.
	hash string
	// document lacks the parts that others manage. It is nil if nothing is desired, or if the
	// part can't be read. Then fault gives the reason.
	document *document.State
	fault    error
	foreign  foreign
	// named are the targets of the part.
	named []string
	targets
}

// ordersOf reads a desired state, and returns the hash of all of it, "" without a state. There is
// one order at least. An error means that the managers of the interfaces are unknown.
func ordersOf(w Wanted, manager func(name string) (string, error)) (hash string, orders []order, err error) {
	if w.Invalid != "" {
		return "", []order{{fault: errors.New(w.Invalid)}}, nil
	}
	if len(w.Desired) == 0 {
		return "", []order{{}}, nil
	}
	all := everywhereOf(w)
	for _, o := range divided(w) {
		if o.fault == nil {
			o.targets, o.fault = all.with(o.named)
		}
		if o.document != nil {
			if o.foreign, err = leaveOut(o.document, manager); err != nil {
				return "", nil, err
			}
		}
		orders = append(orders, o)
	}
	return hashOf(w.Desired), orders, nil
}

// divided reads the parts of a desired state. Fields that were set by hand since the parts were
// written belong to no part, and are enforced first.
func divided(w Wanted) (orders []order) {
	parts, rest, err := policy.Split(w.Desired, w.Parts)
	if err != nil || len(w.Parts) == 0 {
		return []order{read("", w.Desired)}
	}
	if rest != nil {
		orders = append(orders, read("", rest))
	}
	for n, part := range parts {
		if len(part) > 0 {
			o := read(w.Parts[n].Paths[0], part)
			o.named = w.Parts[n].Reach
			orders = append(orders, o)
		}
	}
	return orders
}

// read returns the order of a part, with its document if there is nothing wrong.
func read(path string, desired map[string]any) order {
	o := order{path: path, hash: hashOf(desired)}
	text, err := json.Marshal(desired)
	if err == nil {
		err = errors.Join(expressions("", desired)...)
	}
	if err == nil {
		o.document, err = document.ParseJSON(text)
	}
	o.fault = err
	return o
}

// hashOf is the SHA-256 of a desired state as JSON with sorted keys, in hex.
func hashOf(desired map[string]any) string {
	text, err := json.Marshal(desired)
	if err != nil { // It was JSON.
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
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
