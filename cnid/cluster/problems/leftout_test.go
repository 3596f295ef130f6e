// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func TestProblems_ObjectsLeftOut_OneWithFirstNames(t *testing.T) {
	if list := leftOut(nil); len(list) > 0 {
		t.Errorf("without any there is %v", list)
	}
	var sentences []string
	for i := range 10_000 {
		sentences = append(sentences, fmt.Sprintf("Address a-%d is left out", i))
	}
	list := leftOut(sentences)
	if len(list) != 1 || list[0].Reason != v1alpha1.ObjectsLeftOutReason || len(list[0].Message) > 1024 ||
		!strings.HasPrefix(list[0].Message, "Address a-0 is left out; ") || !strings.HasSuffix(list[0].Message, " and 9995 more") {
		t.Errorf("the problem is %+v", list)
	}
}
