// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs has the tests of texts for people: links, the index, and the commands and manifests
// of all pages.
package docs
