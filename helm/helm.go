// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm holds Alioth's chart, and the parts of it that programs read. It has no logic.
// It is a package of its own, because Go embeds only files below the folder of a package.
//
// The CustomResourceDefinitions are generated from the Go types. The definitions of danm.io are
// copies of the definitions of danm.k8s.io, and PodNetwork and PodNetworkInstance of acn.azure.com
// copies of their namesakes in multitenancy.acn.azure.com: controller-gen finds no kinds among
// types that another package defines. NetworkAttachmentDefinition is written by hand, from the
// multi-network specification of the Kubernetes Network Plumbing Working Group, and its Go type
// belongs to that group.
package helm

import (
	"embed"
	"io/fs"
)

//go:generate go tool controller-gen crd paths=../api/... output:crd:dir=alioth/files/crds
//go:generate sh copy-crds.sh alioth/files/crds
//go:generate sh alioth-version.sh ../api/version alioth/Chart.yaml

// Values are the default values of the chart.
//
//go:embed alioth/values.yaml
var Values []byte

// Chart describes the chart, with the versions of Kubernetes that it can be installed on.
//
//go:embed alioth/Chart.yaml
var Chart []byte

//go:embed alioth/files/crds/*.yaml
var files embed.FS

// CRDs returns the CustomResourceDefinitions of the API that Alioth serves, one YAML file each, in
// the top folder.
func CRDs() fs.FS {
	folder, err := fs.Sub(files, "alioth/files/crds")
	if err != nil {
		panic(err) // only for a wrong path
	}
	return folder
}
