package httpapi

import (
	"net/http"

	"config-server/internal/farm"
)

type gpuOption struct {
	ID       string         `json:"id"`
	Driver   string         `json:"driver"`
	Resource string         `json:"resource"`
	Model    string         `json:"model"`
	Source   farm.GPUSource `json:"source"`
	Free     *int64         `json:"free"`
	Total    *int64         `json:"total"`
}

// listGPUOptions answers GET /gpu-options.
func (a *api) listGPUOptions(w http.ResponseWriter, r *http.Request) error {
	offer, err := a.GPUs.List(r.Context())
	if err != nil {
		return unseen(err)
	}
	told := make([]gpuOption, len(offer.Options))
	for i, o := range offer.Options {
		told[i] = gpuOption{o.ID, o.Driver, o.Resource, o.Model, o.Source, known(o.Free), known(o.Total)}
	}
	return answerView(w, r, addWarnings(object{"options": told}, offer.Warnings))
}

// known is a count, null if nobody could make it.
func known(count int64) *int64 {
	if count < 0 {
		return nil
	}
	return &count
}
