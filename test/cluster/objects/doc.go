// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects is how tests use the API server of a lab: they apply and delete objects, and
// wait until pods and workloads are ready.
package objects
