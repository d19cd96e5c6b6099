"""Models of single sites from a trained run, for those that took part and for new ones: folders, exports, predictions."""

from manyheads.onboarding.model_folder import save_personal
from manyheads.onboarding.personal_model import PersonalModel
from manyheads.onboarding.personalize import Personal, personalize
from manyheads.onboarding.site_model import federation_again, site_model, site_names

__all__ = [
    "Personal",
    "PersonalModel",
    "federation_again",
    "personalize",
    "save_personal",
    "site_model",
    "site_names",
]
