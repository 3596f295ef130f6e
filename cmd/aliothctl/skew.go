// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// component is a program whose version may differ from the version of the operator.
type component string

// The components.
const (
	ofDaemon component = "daemon"
	ofPlugin component = "plugin"
	ofClient component = "aliothctl"
)

// skew returns why a program of a version does not work with an operator of another version;
// nil if the pair is supported. A daemon and a plugin may be one minor version older than the
// operator, because an upgrade begins with the operator. aliothctl may be one minor version
// older or newer. Programs of two major versions never work together (docs/versions.md).
func skew(part component, program, operator string) error {
	p, err := utilversion.ParseSemantic(program)
	if err != nil {
		return fmt.Errorf("the %s has no version that can be compared: %w", part, err)
	}
	o, err := utilversion.ParseSemantic(operator)
	if err != nil {
		return fmt.Errorf("the operator has no version that can be compared: %w", err)
	}
	newest := int64(0)
	if part == ofClient {
		newest = 1
	}
	switch ahead := int64(p.Minor()) - int64(o.Minor()); {
	case p.Major() != o.Major():
		return fmt.Errorf("%s %s has another major version than operator %s", part, program, operator)
	case ahead > newest:
		return fmt.Errorf("%s %s is newer than operator %s: upgrade the operator first", part, program, operator)
	case ahead < -1:
		return fmt.Errorf("%s %s is more than one minor version older than operator %s: upgrade it", part, program, operator)
	}
	return nil
}
