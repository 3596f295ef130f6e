// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics reads the histograms that a daemon serves.
package metrics

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Histograms returns the histograms of a family in the text that a daemon serves, by their
// value of a label.
func Histograms(text, family, label string) (map[string][]*dto.Histogram, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	byValue := map[string][]*dto.Histogram{}
	for _, metric := range families[family].GetMetric() {
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == label {
				byValue[pair.GetValue()] = append(byValue[pair.GetValue()], metric.GetHistogram())
			}
		}
	}
	return byValue, nil
}
