"""A trained run at a new site: a personalized model, its folder and exports, its predictions."""

from manyheads.onboarding.model_folder import save_personal
from manyheads.onboarding.personal_model import PersonalModel
from manyheads.onboarding.personalize import Personal, personalize

__all__ = ["Personal", "PersonalModel", "personalize", "save_personal"]
