// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/version"
)

// Known returns an error for a value that this version does not know. The schema of a later
// version may permit further values. Known accepts a field without a value: the schema requires
// the field or has a default.
func Known[T ~string](field string, value T, known ...T) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return unknown(field, string(value), known)
}

// EachKnown does the same as Known for the elements of a list.
func EachKnown[T ~string](field string, list []T, known ...T) error {
	for _, value := range list {
		if err := Known(field, value, known...); err != nil {
			return err
		}
	}
	return nil
}

func unknown[T ~string](field, value string, known []T) error {
	var served []string
	for _, one := range known {
		served = append(served, string(one))
	}
	return &UnknownError{
		fmt.Sprintf("%s %s is unknown to Alioth v%s: use %s, or upgrade Alioth to a version that knows it",
			field, quote.Text(value), version.Number, strings.Join(served, " or ")),
	}
}

// UnknownError is the error of Known. Its type tells a value of a later version from all else
// that can't be used of an object.
type UnknownError struct{ message string }

func (e *UnknownError) Error() string { return e.message }
