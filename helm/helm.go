// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm holds Alioth's chart. It has no code: it exists for the step
// that copies the generated CustomResourceDefinitions and the number of the release into the chart.
package helm

//go:generate sh -c "rm -f alioth/files/crds/*.yaml && cp ../api/crds/*.yaml alioth/files/crds/"
//go:generate sh alioth-version.sh ../api/version alioth/Chart.yaml
