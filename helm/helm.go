// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm holds Alioth's chart, and the parts of it that programs read. It has no logic.
// Its generated files are copies of the CustomResourceDefinitions and of the number of the
// release. It is a package of its own, because Go embeds only files below the folder of a package.
package helm

import _ "embed" // the chart's files

//go:generate sh -c "rm -f alioth/files/crds/*.yaml && cp ../api/crds/*.yaml alioth/files/crds/"
//go:generate sh alioth-version.sh ../api/version alioth/Chart.yaml

// Values are the default values of the chart.
//
//go:embed alioth/values.yaml
var Values []byte

// Chart describes the chart, with the versions of Kubernetes on which it can be installed.
//
//go:embed alioth/Chart.yaml
var Chart []byte
