// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"maps"
)

// Limits, for a policy can come from a person that doesn't own the nodes.
const (
	// maxCaptures is the number of expressions of a policy.
	maxCaptures = 64
	// maxLength is the maximum length of an expression in bytes.
	maxLength = 1024
	// maxSteps is the number of steps of a path.
	maxSteps = 32
	// maxStages is the number of expressions between pipes.
	maxStages = 8
	// maxDigits keeps each number exact in a float64.
	maxDigits = 15
	// maxValues is the number of values that one call copies. A node with a thousand
	// interfaces has about 50,000. Replacements can multiply values, and a budget of
	// copies limits them.
	maxValues = 1 << 19
	// bytesOfValue is the length of text that counts as one value.
	bytesOfValue = 64
)

var errTooLarge = errors.New("the result is too large; capture less")

// budget is the number of values that may still be copied.
type budget struct{ left int }

func newBudget() *budget { return &budget{left: maxValues} }

func (b *budget) spend(values int) error {
	if values > b.left {
		return errTooLarge
	}
	b.left -= values
	return nil
}

// copyOf is a deep copy of a JSON value.
func (b *budget) copyOf(value any) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return b.copyObject(v)
	case []any:
		return b.copyList(v)
	default:
		return value, b.spend(1)
	}
}

func (b *budget) copyObject(object map[string]any) (map[string]any, error) {
	if err := b.spend(1 + len(object)); err != nil {
		return nil, err
	}
	out := maps.Clone(object)
	for key, value := range object {
		var err error
		if out[key], err = b.copyOf(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *budget) copyList(list []any) ([]any, error) {
	if err := b.spend(1 + len(list)); err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, value := range list {
		var err error
		if out[i], err = b.copyOf(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}
