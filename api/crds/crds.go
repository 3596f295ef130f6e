// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds holds the generated CustomResourceDefinitions of Alioth's API,
// for those who install them without Helm. It holds no logic.
package crds

import "embed"

//go:generate go tool controller-gen object paths=../... crd paths=../... output:crd:dir=.

// Files are the CustomResourceDefinitions, one YAML file each, in the top
// folder.
//
//go:embed *.yaml
var Files embed.FS
