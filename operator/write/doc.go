// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write writes the parts of API objects that several controllers write alike: the
// finalizer, the status with its conditions, the Usage of a Subnet or VPC, and the grants
// that admission policies take as parameters. A write is skipped if it changes nothing.
package write
