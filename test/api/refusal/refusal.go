// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal tells refusals of the API server apart, for tests that wait for admission.
package refusal

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// MayPass reports whether err is a refusal that may end by itself: of rights or grants that are not
// there yet, or of a policy that can't be evaluated yet. Such a policy refuses with the reason
// Invalid: until the API server renews its list of kinds, every 30 s, policies whose parameters are
// of new kinds refuse all requests that they match. Policies without parameters do so until the
// parameters exist.
func MayPass(err error) bool {
	return apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// UnknownParameters reports whether text is of a policy whose parameters are of a kind that
// the API server does not know yet.
func UnknownParameters(text string) bool {
	return strings.Contains(text, "failed to find resource referenced by paramKind")
}

// UnknownKind reports whether text comes from a client that looked for a kind which the API server
// does not serve yet.
func UnknownKind(text string) bool {
	return strings.Contains(text, "no matches for kind")
}
