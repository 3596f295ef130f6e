// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rows/policy"
)

// podsText writes a selection of pods for people.
func podsText(pods *policy.Pods) string {
	text := "any labels"
	if len(pods.Pods) > 0 {
		text = selectorText(pods.Pods)
	}
	switch {
	case pods.Namespace != "":
		return text + " in namespace " + pods.Namespace
	case len(pods.Namespaces) > 0:
		return text + " in namespaces with " + selectorText(pods.Namespaces)
	}
	return text + " in any namespace"
}

// selectorText writes a selector as kubectl does: requirements with commas between them. The API
// has checked their characters, and not their number.
func selectorText(s policy.Selector) string {
	var texts []string
	for i := range s {
		texts = append(texts, requirementText(&s[i]))
	}
	return quote.Cut(strings.Join(texts, ","), quote.MaxQuoted)
}

func requirementText(r *policy.Requirement) string {
	values := "(" + strings.Join(r.Values, ",") + ")"
	switch r.Operator {
	case policy.In:
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
		return r.Key + " in " + values
	case policy.NotIn:
		return r.Key + " notin " + values
	case policy.DoesNotExist:
		return "!" + r.Key
	case policy.Exists:
	}
	return r.Key
}
