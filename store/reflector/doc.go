// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reflector is the only bridge between API objects and store rows. Its
// conversions are pure functions, one per kind. Its Set keeps the store like
// parts of the API that come and go: a Source is one list-and-watch scope, such
// as the Addresses of one VPC, and a row stays as long as one source covers it.
//
// Sources work through controller-runtime's client.WithWatch and client-go's
// Reflector. That client serves Alioth's kinds and Kubernetes' own alike
// without generated clientsets, and takes any selector per call, which a shared
// informer can't change once it runs. Fed by a Reflector directly, a source
// keeps the key of each object and no object, so that a node's memory holds
// each row once.
package reflector
