// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm holds Alioth's chart. It has no code: it exists for the step
// that copies the generated CustomResourceDefinitions into the chart.
package helm

//go:generate sh -c "rm -f alioth/files/crds/*.yaml && cp ../api/crds/*.yaml alioth/files/crds/"
